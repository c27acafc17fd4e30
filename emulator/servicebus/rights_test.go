package servicebus_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
)

// signedBy is the connection string of a key.
func signedBy(key string) string {
	return strings.Replace(connectionString, servicebus.DefaultKeyName, key, 1)
}

func TestAKeyAllowsWhatItsClaimsSay(t *testing.T) { // D1
	send := func(w *world, c *azservicebus.Client) error {
		return w.sender(c, "tasks").SendMessage(w.ctx, message("b"), nil)
	}
	schedule := func(w *world, c *azservicebus.Client) error {
		_, err := w.sender(c, "tasks").ScheduleMessages(w.ctx, []*azservicebus.Message{message("c")}, time.Now().Add(time.Hour), nil)
		return err
	}
	receive := func(w *world, c *azservicebus.Client) error {
		_, err := w.receiver(c, "tasks").ReceiveMessages(w.ctx, 1, nil)
		return err
	}
	peek := func(w *world, c *azservicebus.Client) error {
		_, err := w.receiver(c, "tasks").PeekMessages(w.ctx, 1, nil)
		return err
	}
	for _, row := range []struct {
		key, what string
		do        func(*world, *azservicebus.Client) error
		need      string // the claim that is missing; none if empty
	}{
		{"SendOnly", "send", send, ""},
		{"SendOnly", "schedule", schedule, ""},
		{"SendOnly", "receive", receive, "Listen"},
		{"SendOnly", "peek", peek, "Listen"},
		{"ListenOnly", "send", send, "Send"},
		{"ListenOnly", "schedule", schedule, "Send"},
		{"ListenOnly", "receive", receive, ""},
		{"ListenOnly", "peek", peek, ""},
		{"NoManage", "send", send, ""},
		{"NoManage", "receive", receive, ""},
	} {
		t.Run(row.key+" to "+row.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "a")
				err := row.do(w, w.clientWith("worker-1", signedBy(row.key)))
				if row.need == "" {
					w.must(err)
					return
				}
				w.wantCode(err, azservicebus.CodeUnauthorizedAccess)
				if want := "Unauthorized access. '" + row.need + "' claim(s) are required to perform this operation. Resource: 'sb://"; !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %s", err, want)
				}
			})
		})
	}
}

// The management of an entity is attached to by senders and receivers alike; what it does needs the right one.
func TestManagementNeedsTheClaimOfItsOperation(t *testing.T) { // D1
	inBubble(t, func(t *testing.T, w *world) {
		for _, row := range []struct {
			key, operation string
			status         int32
		}{
			{"SendOnly", "com.microsoft:peek-message", 401},
			{"SendOnly", "com.microsoft:renew-lock", 401},
			{"ListenOnly", "com.microsoft:schedule-message", 401},
			{"ListenOnly", "com.microsoft:cancel-scheduled-message", 401},
			{"SendOnly", "com.microsoft:cancel-scheduled-message", 400},
		} {
			p := w.plain()
			signed := strings.Replace(token("amqp://localhost", w.hub.Now().Add(time.Hour)), servicebus.DefaultKeyName, row.key, 1)
			if status, text := p.putToken("servicebus.windows.net:sastoken", signed, ""); status != 202 {
				t.Fatalf("put-token: %d %s", status, text)
			}
			status, text := p.request("tasks/$management", map[string]any{}, map[string]any{"operation": row.operation})
			if status != row.status || status == 401 && !strings.Contains(text, "claim(s) are required") {
				t.Errorf("%s by %s: %d %s, want %d", row.operation, row.key, status, text, row.status)
			}
		}
	})
}

// identity is an Entra ID that gives out one token.
type identity string

func (i identity) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(i), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestAJSONWebTokenIsJudgedByItsCheck(t *testing.T) { // D1
	inBubble(t, func(t *testing.T, w *world) {
		client := func(token string) *azservicebus.Client {
			c, err := azservicebus.NewClient("localhost", identity(token), &azservicebus.ClientOptions{
				NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
					return w.server.Dial(ctx)
				},
			})
			w.must(err)
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			return c
		}
		w.must(w.sender(client("good"), "tasks").SendMessage(w.ctx, message("a"), nil))
		err := w.sender(client("bad"), "tasks").SendMessage(w.ctx, message("a"), nil)
		w.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		if !strings.Contains(err.Error(), "InvalidToken: forged") {
			t.Errorf("refused with %v", err)
		}
	})
}

// linkError waits for the error that ends a link.
func (w *world) linkError(r *amqp.Receiver) *amqp.Error {
	w.t.Helper()
	_, err := r.Receive(w.ctx, nil)
	ended, ok := errors.AsType[*amqp.LinkError](err)
	if !ok || ended.RemoteErr == nil {
		w.t.Fatalf("the link ended with %v", err)
	}
	return ended.RemoteErr
}

func TestALinkEndsWithItsToken(t *testing.T) { // D2
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		status, text := p.putToken("servicebus.windows.net:sastoken", token("amqp://localhost", w.hub.Now().Add(5*time.Minute)), "")
		if status != 202 {
			t.Fatalf("put-token: %d %s", status, text)
		}
		r, err := p.session().NewReceiver(w.ctx, "tasks", nil)
		w.must(err)
		start := time.Now()
		e := w.linkError(r)
		if e.Condition != amqp.ErrCondDetachForced || !strings.Contains(e.Description, "Code: RenewToken. Details: Unauthorized access. 'Listen' claim(s) are required") {
			t.Errorf("ended with %v", e)
		}
		if after := time.Since(start); after != 5*time.Minute {
			t.Errorf("ended after %v, want 5m", after)
		}
		// Nothing else gives the connection a right to be.
		w.wantCondition(p.closed(), amqp.ErrCondConnectionForced, "no valid token")
		if after := time.Since(start); after != 5*time.Minute+20*time.Second {
			t.Errorf("closed after %v, want 5m20s", after)
		}
	})
}

func TestALinkLivesAsLongAsItsTokenIsRenewed(t *testing.T) { // D2
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		r, err := p.session().NewReceiver(w.ctx, "tasks", nil)
		w.must(err)
		w.hub.Jump(55 * time.Minute)
		p.authorize()
		w.hub.Jump(10 * time.Minute) // the first token is over
		time.Sleep(time.Minute)
		w.send("tasks", "a")
		_, err = r.Receive(w.ctx, nil)
		w.must(err)
	})
}

// closed waits for the end of the connection.
func (p *plain) closed() error {
	<-p.conn.Done()
	err := p.conn.Err()
	if ended, ok := errors.AsType[*amqp.ConnError](err); ok && ended.RemoteErr != nil {
		return ended.RemoteErr
	}
	return err
}

func TestAConnectionWithoutATokenIsClosed(t *testing.T) { // D2
	inBubble(t, func(t *testing.T, w *world) {
		start := time.Now()
		w.wantCondition(w.plain().closed(), amqp.ErrCondConnectionForced, "no valid token")
		if after := time.Since(start); after != 20*time.Second {
			t.Errorf("closed after %v, want 20s", after)
		}
	})
}

func TestAnIdleLinkIsDetached(t *testing.T) { // D3
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		r, err := p.session().NewReceiver(w.ctx, "tasks", nil)
		w.must(err)
		start := time.Now()
		time.Sleep(6 * time.Minute)
		w.send("tasks", "a") // a delivery is a use
		m, err := r.Receive(w.ctx, nil)
		w.must(err)
		w.must(r.AcceptMessage(w.ctx, m)) // and so is a settlement
		e := w.linkError(r)
		if e.Condition != amqp.ErrCondDetachForced || !strings.Contains(e.Description, "IdleTimerExpired: Idle timeout: 00:10:00.") {
			t.Errorf("ended with %v", e)
		}
		if after := time.Since(start); after != 16*time.Minute {
			t.Errorf("ended after %v, want 16m", after)
		}
	})
}

// A worker whose handler takes long renews its lock, and so keeps its link.
func TestWhatIsAskedInALinksNameKeepsItAlive(t *testing.T) { // D3
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		c := w.client("worker-1")
		r := w.receiver(c, "tasks")
		m := w.receive(r)
		w.must(r.RenewMessageLock(w.ctx, m, nil)) // for which the SDK attaches to the management
		// From now on whoever attaches again is refused: the SDK would do so without a word.
		w.arm("again", "attach", func(r *control.Rule) {
			r.Do, r.Condition, r.Match.Client = "answer", string(amqp.ErrCondNotAllowed), "worker-1"
		})
		for range 30 {
			time.Sleep(4 * time.Minute)
			w.must(r.RenewMessageLock(w.ctx, m, nil))
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
		w.send("tasks", "b")
		w.receive(r)
	})
}

func TestAConnectionWithoutLinksIsClosed(t *testing.T) { // D3
	for _, row := range []struct {
		name  string
		had   bool // a link to an entity before
		want  string
		after time.Duration
	}{
		{"any more", true, "The connection was inactive for more than the allowed 300000 milliseconds", 5 * time.Minute},
		{"ever", false, "The connection was inactive for more than the allowed 60000 milliseconds", time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				p := w.plain()
				p.authorize() // by links to $cbs, which do not count
				if row.had {
					r, err := p.session().NewReceiver(w.ctx, "tasks", nil)
					w.must(err)
					w.must(r.Close(w.ctx))
				}
				start := time.Now()
				w.wantCondition(p.closed(), amqp.ErrCondConnectionForced, row.want)
				if after := time.Since(start); after != row.after {
					t.Errorf("closed after %v, want %v", after, row.after)
				}
			})
		})
	}
}
