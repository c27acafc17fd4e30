package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	// inFlight is how many calls of the SDK are under way at once.
	inFlight = 64
	// bodySize is the size of a message's body.
	bodySize = 1024
)

// client is the SDK and the server it speaks with.
type client struct {
	sdk      *azservicebus.Client
	sender   *azservicebus.Sender
	receiver *azservicebus.Receiver
	server   *server
	name     string // begins the names of its rows
}

func dialSDK(s *server, name string) (*client, error) {
	sdk, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+s.amqp+
		";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey="+sasKey+";UseDevelopmentEmulator=true", nil)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c := &client{sdk: sdk, server: s, name: name}
	if c.sender, err = sdk.NewSender(queueWork, nil); err != nil {
		return nil, fmt.Errorf("make a sender: %w", err)
	}
	if c.receiver, err = sdk.NewReceiverForQueue(queueWork, nil); err != nil {
		return nil, fmt.Errorf("make a receiver: %w", err)
	}
	return c, nil
}

// measureSDK measures memory and -data in turns.
func measureSDK(ctx context.Context, b *bench) (err error) {
	flags := map[string][]string{"sdk": nil}
	names := []string{"sdk"}
	const durable = "sdk, -data"
	if b.hasFlag(ctx, "data") {
		names = append(names, durable)
		flags[durable] = []string{"-data", filepath.Join(b.work, "data")}
	}
	var clients []*client
	for _, name := range names {
		s, startErr := b.start(ctx, strings.ReplaceAll(name, ", ", ""), flags[name]...)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		c, dialErr := dialSDK(s, name)
		if dialErr != nil {
			return dialErr
		}
		defer func() { err = errors.Join(err, c.sdk.Close(context.WithoutCancel(ctx))) }()
		if err := errors.Join(c.send(ctx, 1000), c.receive(ctx, 1000)); err != nil { // warms up
			return err
		}
		clients = append(clients, c)
	}
	for range b.Repeat {
		for _, c := range clients {
			if err := b.turn(ctx, c); err != nil {
				return err
			}
		}
	}
	if len(names) == 1 {
		for _, what := range []string{"send", "receive and complete"} {
			b.table.row(durable+": "+what, "", goal{}, "").skipped = "this emulator has no flag -data"
		}
	}
	return nil
}

// hasFlag reports whether the emulator knows a flag.
func (b *bench) hasFlag(ctx context.Context, name string) bool {
	help, err := exec.CommandContext(ctx, b.Emulator, "-h").Output()
	return err == nil && strings.Contains(string(help), "\n  -"+name+" ")
}

// turn sends and receives the messages of one repetition.
func (b *bench) turn(ctx context.Context, c *client) error {
	sends, receives, base := atLeast(40_000), atLeast(12_000), ""
	if c.name != "sdk" {
		sends, receives, base = atLeast(20_000), atLeast(6_000), "sdk"
	}
	than := func(what string) string {
		if base == "" {
			return ""
		}
		return base + ": " + what
	}
	const send, receive = "send", "receive and complete"
	err := b.timed(c.server, b.Messages, workload{
		rate: b.table.row(c.name+": "+send, "messages/s", sends, than(send)),
		cpu:  c.name + ": " + send,
		run:  func() error { return c.send(ctx, b.Messages) },
	})
	if err != nil {
		return err
	}
	return b.timed(c.server, b.Messages, workload{
		rate: b.table.row(c.name+": "+receive, "messages/s", receives, than(receive)),
		cpu:  c.name + ": " + receive,
		run:  func() error { return c.receive(ctx, b.Messages) },
	})
}

// workload is something that is done with a number of messages.
type workload struct {
	rate *row
	cpu  string // begins the names of the rows of processor time; "" for none
	run  func() error
}

// timed adds a sample to the row of the workload's rate, and to those of client's and server's processor time.
func (b *bench) timed(s *server, messages int, w workload) error {
	own, err1 := ownCPU()
	theirs, err2 := s.cpu()
	began := time.Now()
	if err := errors.Join(err1, err2, w.run()); err != nil {
		return err
	}
	took := time.Since(began)
	ownAfter, err1 := ownCPU()
	theirsAfter, err2 := s.cpu()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	w.rate.add(float64(messages) / took.Seconds())
	if w.cpu != "" {
		const unit, per = "CPU s per 100,000", 100_000.0
		inClient := b.table.row(w.cpu+", client", unit, goal{}, "")
		inClient.add((ownAfter - own) * per / float64(messages))
		b.table.row(w.cpu+", server", unit, goal{}, inClient.name).add((theirsAfter - theirs) * per / float64(messages))
	}
	return nil
}

// send sends n messages, inFlight of them at once.
func (c *client) send(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var senders sync.WaitGroup
	body := make([]byte, bodySize)
	for range inFlight {
		senders.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				id := messageID(int(i))
				if err := c.sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, Body: body}, nil); err != nil {
					cancel(fmt.Errorf("send: %w", err))
					return
				}
			}
		})
	}
	senders.Wait()
	return context.Cause(ctx)
}

// receive receives n messages and completes them, at most inFlight of them at once.
func (c *client) receive(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var completions sync.WaitGroup
	defer completions.Wait()
	slots := make(chan struct{}, inFlight)
	for received := 0; received < n; {
		got, err := c.receiver.ReceiveMessages(ctx, min(inFlight, n-received), nil)
		if err != nil {
			return errors.Join(fmt.Errorf("receive: %w", err), context.Cause(ctx))
		}
		received += len(got)
		for _, m := range got {
			slots <- struct{}{}
			completions.Go(func() {
				defer func() { <-slots }()
				if err := c.receiver.CompleteMessage(ctx, m, nil); err != nil {
					cancel(fmt.Errorf("complete: %w", err))
				}
			})
		}
	}
	completions.Wait()
	return context.Cause(ctx)
}

// messageID is as long as the ids that programs make.
func messageID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
