package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
)

// A client that lost or repeated messages would measure something else than it says.
func TestTheRawClientSendsAndCompletesEveryMessageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		described, err := servicebus.ReadConfig(bytes.NewReader(config))
		if err != nil {
			t.Fatal(err)
		}
		hub := control.New()
		server, err := servicebus.New(hub, described)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		dial := func(role amqp.Role) *peer {
			conn, err := server.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p, err := newPeer(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.attach(role, queueWork, ""); err != nil {
				t.Fatal(err)
			}
			return p
		}
		b := &blaster{sender: dial(amqp.RoleSender), receiver: dial(amqp.RoleReceiver)}
		const n = 2*window + 100
		for range 2 {
			if err := b.send(n); err != nil {
				t.Fatal(err)
			}
			if err := b.receive(n); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the server hears of the end when its reader does
		counts := make(map[string]int)
		for _, e := range hub.Events(0) {
			counts[e.Kind]++
		}
		for kind, want := range map[string]int{"enqueued": 2 * n, "delivered": 2 * n, "settled": 2 * n, "connected": 2, "disconnected": 2, "lock-expired": 0} {
			if counts[kind] != want {
				t.Errorf("%d events %s, want %d", counts[kind], kind, want)
			}
		}
	})
}
