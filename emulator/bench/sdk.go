package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/measure"
)

const (
	// inFlight is how many calls of the SDK are under way at once.
	inFlight = 64
	// bodySize is the size of a message's body.
	bodySize = 1024
)

// sdkClient is the SDK as programs use it.
type sdkClient struct {
	sdk      *azservicebus.Client
	sender   *azservicebus.Sender
	receiver *azservicebus.Receiver
}

func dialSDK(_ context.Context, s *measure.Server) (client, error) {
	sdk, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+s.AMQP+
		";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey="+sasKey+";UseDevelopmentEmulator=true", nil)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c := &sdkClient{sdk: sdk}
	if c.sender, err = sdk.NewSender(queueWork, nil); err != nil {
		return nil, fmt.Errorf("make a sender: %w", err)
	}
	if c.receiver, err = sdk.NewReceiverForQueue(queueWork, nil); err != nil {
		return nil, fmt.Errorf("make a receiver: %w", err)
	}
	return c, nil
}

// send sends n messages, inFlight of them at once.
func (c *sdkClient) send(ctx context.Context, n int) error {
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
func (c *sdkClient) receive(ctx context.Context, n int) error {
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

func (c *sdkClient) close(ctx context.Context) error { return c.sdk.Close(ctx) }

// messageID is as long as the ids that programs make.
func messageID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
