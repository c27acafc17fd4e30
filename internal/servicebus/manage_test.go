package servicebus

import (
	"errors"
	"testing"
	"time"

	"oneeffect/emulator/inprocess"
	"oneeffect/internal/message"
)

func TestTheLengthOfAQueueIsWithoutWhatIsScheduledOrDead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		management := inprocess.Transport(w.server.Admin())
		defer management.Close()
		m, err := Manage(Options{ConnectionString: connectionString, ApplicationID: "scaler", Management: management})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.client.Sender(message.Tasks)
		if err != nil {
			t.Fatal(err)
		}
		w.bury("Test", "dead")
		w.send(message.Tasks, "one", "two")
		if err := s.SendLater(t.Context(), task("later"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n, err := m.Active(t.Context(), message.Tasks); err != nil || n != 2 {
			t.Errorf("%d messages, %v, want 2", n, err)
		}
		if _, err := m.Active(t.Context(), "nothing"); !errors.Is(err, message.ErrNotFound) {
			t.Errorf("a queue that is not there: %v", err)
		}
	})
}
