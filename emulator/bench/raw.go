package main

import (
	"context"
	"errors"
	"fmt"

	"oneeffect/emulator/amqp"
	"oneeffect/measure"
)

// message is the i-th one, encoded.
func message(i int) ([]byte, error) {
	m, err := amqp.AppendProperties(nil, amqp.Properties{MessageID: messageID(i)})
	return amqp.AppendData(m, make([]byte, bodySize)), err
}

// blaster sends to a queue and receives from it, without the SDK.
type blaster struct{ sender, receiver *peer }

func dialBlaster(ctx context.Context, s *measure.Server, queue string) (*blaster, error) {
	sender, err := dialPeer(ctx, s.AMQP)
	if err != nil {
		return nil, err
	}
	receiver, err := dialPeer(ctx, s.AMQP)
	if err != nil {
		return nil, errors.Join(err, sender.conn.Close())
	}
	b := &blaster{sender, receiver}
	if err := errors.Join(sender.attach(amqp.RoleSender, queue, ""), receiver.attach(amqp.RoleReceiver, queue, "")); err != nil {
		return nil, errors.Join(err, sender.conn.Close(), receiver.conn.Close())
	}
	return b, nil
}

func (b *blaster) close() error { return errors.Join(b.sender.close(), b.receiver.close()) }

// send sends n messages and waits until all of them are accepted.
func (b *blaster) send(n int) error {
	p := b.sender
	p.settled = 0
	m, err := message(n)
	if err != nil {
		return err
	}
	for sent := 0; p.settled < n; {
		for sent < n && p.credit > 0 && sent-p.settled < window {
			if err := p.transfer(m); err != nil {
				return err
			}
			sent++
		}
		if err := p.readAll(nil); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

// receive receives n messages, completes each, and waits until all completions are answered.
func (b *blaster) receive(n int) error {
	p := b.receiver
	p.settled = 0
	received := 0
	take := func(t *amqp.Transfer) error {
		received++
		p.count++
		p.unread--
		return p.put(&amqp.Disposition{Role: amqp.RoleReceiver, First: t.DeliveryID.Value, State: amqp.Accepted{}}, nil)
	}
	for p.settled < n {
		if left := min(window, n-received); left > 0 && int(p.unread) <= left/2 {
			if err := p.give(uint32(left)); err != nil {
				return err
			}
		}
		if err := p.readAll(take); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
	return nil
}

// readAll handles the next frame and all that have come with it.
func (p *peer) readAll(take func(*amqp.Transfer) error) error {
	for {
		body, err := p.handle()
		if err != nil {
			return err
		}
		if t, ok := body.(*amqp.Transfer); ok && take != nil {
			if err := take(t); err != nil {
				return err
			}
		}
		if p.in.Buffered() == 0 {
			return nil
		}
	}
}

// rawClient is a blaster in a comparison. Its context is that of its peers.
type rawClient struct{ *blaster }

func dialRaw(ctx context.Context, s *measure.Server) (client, error) {
	b, err := dialBlaster(ctx, s, queueWork)
	return rawClient{b}, err
}

func (c rawClient) send(_ context.Context, n int) error    { return c.blaster.send(n) }
func (c rawClient) receive(_ context.Context, n int) error { return c.blaster.receive(n) }
func (c rawClient) close(context.Context) error            { return c.blaster.close() }
