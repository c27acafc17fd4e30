package downstream

import (
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/downstream"
	"oneeffect/internal/message"
)

// world is the downstream that the demo uses, in this process.
func world(t *testing.T) (*control.Hub, Options) {
	hub := control.New()
	server := emulator.New(hub)
	t.Cleanup(func() { hub.Close(); server.Close() })
	return hub, Options{UserAgent: "worker-1", Transport: server.Transport()}
}

func TestOneKeyHasOneResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := world(t)
		h := handlerOf(t, keyedAt("http://crm/customers"), o)
		c := message.Call{Key: "82f3", Payload: []byte(`{"name":"Ada"}`)}
		first, second := h.Call(t.Context(), c), h.Call(t.Context(), c)
		want(t, first, message.EffectApplied, false, false)
		want(t, second, message.EffectApplied, false, false)
		if first.Ref == "" || first.Ref != second.Ref {
			t.Errorf("two calls, references %q and %q", first.Ref, second.Ref)
		}
		c.Payload = []byte(`{"name":"Bob"}`)
		want(t, h.Call(t.Context(), c), message.EffectNotApplied, false, false)
	})
}

func TestALostReplyIsUnknownAndTheNextCallBringsTheResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, o := world(t)
		if _, err := hub.Arm(control.Rule{Do: "drop", When: "after", Match: control.Match{Service: "downstream"}, Times: 1}); err != nil {
			t.Fatal(err)
		}
		h := handlerOf(t, keyedAt("http://crm/customers"), o)
		c := message.Call{Key: "82f3", Payload: []byte(`{"name":"Ada"}`)}
		want(t, h.Call(t.Context(), c), message.EffectUnknown, true, false)
		want(t, h.Call(t.Context(), c), message.EffectApplied, false, false)
	})
}

func TestWhileTheFirstCallRunsTheSecondIsToldToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, o := world(t)
		if _, err := hub.Arm(control.Rule{Do: "delay", When: "after", Delay: control.Duration(time.Second), Match: control.Match{Service: "downstream"}, Times: 1}); err != nil {
			t.Fatal(err)
		}
		h := handlerOf(t, keyedAt("http://crm/customers"), o)
		c := message.Call{Key: "82f3", Payload: []byte(`{"name":"Ada"}`)}
		first := make(chan message.Outcome)
		go func() { first <- h.Call(t.Context(), c) }()
		synctest.Wait()
		want(t, h.Call(t.Context(), c), message.EffectUnknown, true, true)
		want(t, <-first, message.EffectApplied, false, false)
	})
}

func TestAKeylessFailureIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := world(t)
		h := handlerOf(t, keylessAt("http://print/letters"), o)
		want(t, h.Call(t.Context(), message.Call{Payload: []byte(`{"fail":500}`)}), message.EffectUnknown, false, false)
		want(t, h.Call(t.Context(), message.Call{Payload: []byte(`{"to":"Ada"}`)}), message.EffectApplied, false, false)
	})
}
