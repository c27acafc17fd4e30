package orchestrator_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"oneeffect/internal/message"
)

// What was dealt with leaves the dead-letter queue; what was not, and what is evidence
// of something else, stays.
func TestTheDeadLettersOfWhatWasReplayedOrResolvedAreRemoved(t *testing.T) { // E7
	const same = `{"to":"Ada"}`
	for name, test := range map[string]struct {
		reason, operation, body string
		left                    string // reasons
	}{
		"replayed": {message.DownstreamRejected, "replay", `{"reason":"paper is back"}`, "[another payload a later run unreadable another execution]"},
		"resolved": {message.OutcomeUnknown, "resolve", `{"reason":"it lies there","resultRef":"tray/7"}`, "[another payload a later run unreadable another execution]"},
		"refused":  {message.OutcomeUnknown, "replay", `{"reason":"again"}`, "[its run another payload a later run unreadable another execution]"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.submit()
				b.failed(test.reason)
				b.dies(1, same, "its run")
				b.dies(1, `{"to":"Bob"}`, "another payload")
				b.dies(2, same, "a later run")
				b.dead.all = append(b.dead.all, message.Dead{Sequence: 9, Body: []byte("82f3"), Reason: "unreadable"})
				b.bury(t, "4711", 1, "another execution")
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- b.Clear(ctx) }()
				b.ask(http.MethodPost, "/v1/executions/82f3/"+test.operation, test.body)
				synctest.Wait()
				var left []string
				for _, d := range b.dead.all {
					left = append(left, d.Reason)
				}
				if fmt.Sprint(left) != test.left {
					t.Errorf("left %q, want %s", left, test.left)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
