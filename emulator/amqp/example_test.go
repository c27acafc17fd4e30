package amqp_test

import (
	"context"
	"fmt"
	"log"
	"net"

	client "github.com/Azure/go-amqp"

	"oneeffect/emulator/amqp"
)

// sink takes every message that is sent to it.
type sink struct{}

func (sink) Open(*amqp.Conn) *amqp.Error { return nil }

func (sink) Attach(l *amqp.Link) {
	_ = l.Accept(amqp.Acceptance{Credit: 10}) // a link that has ended meanwhile needs no answer
}

func (sink) Transfer(d *amqp.Delivery) {
	m, err := amqp.SplitMessage(d.Message)
	if err != nil {
		_ = d.Settle(amqp.Rejected{Error: amqp.Errorf(amqp.ErrCondDecodeError, "%v", err)})
		return
	}
	body, _ := m.DataSections()
	fmt.Printf("%s got %q\n", d.Link.Peer.Target.Address, body)
	_ = d.Settle(amqp.Accepted{})
}

func (sink) Credit(*amqp.Link)                            {}
func (sink) Disposition(*amqp.Delivery, amqp.State, bool) {}
func (sink) Detached(l *amqp.Link, _ *amqp.Error)         { fmt.Println(l.Peer.Target.Address, "is left") }
func (sink) Closed(c *amqp.Conn, err error)               { fmt.Println(c.Peer.ContainerID, "has gone:", err) }

// A handler gives a connection its meaning: here, that messages to any address are taken.
func Example() {
	theirs, ours := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- amqp.Serve(context.Background(), ours, sink{}, amqp.Options{}) }()

	ctx := context.Background()
	conn, err := client.NewConn(ctx, theirs, &client.ConnOptions{ContainerID: "sender", SASLType: client.SASLTypeAnonymous()})
	if err != nil {
		log.Fatal(err)
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	sender, err := session.NewSender(ctx, "somewhere", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := sender.Send(ctx, client.NewMessage([]byte("hello")), nil); err != nil { // returns when it is accepted
		log.Fatal(err)
	}
	_ = conn.Close() // it finds that the server has closed the pipe first
	fmt.Println("served:", <-served)
	// Output:
	// somewhere got ["hello"]
	// somewhere is left
	// sender has gone: <nil>
	// served: <nil>
}
