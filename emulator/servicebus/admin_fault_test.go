package servicebus_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus"
)

func TestRulesSeeEveryRequestToTheManagementAPI(t *testing.T) {
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		for _, c := range []struct {
			operation, entity string
			do                func() error
		}{
			{"admin-create", "jobs", func() error { _, err := a.CreateQueue(w.ctx, "Jobs", nil); return err }},
			{"admin-update", "jobs", func() error { _, err := a.UpdateQueue(w.ctx, "jobs", admin.QueueProperties{}, nil); return err }},
			{"admin-read", "jobs", func() error { _, err := a.GetQueue(w.ctx, "jobs", nil); return err }},
			{"admin-list", "$resources/queues", func() error { _, err := a.NewListQueuesPager(nil).NextPage(w.ctx); return err }},
			{"admin-create", "news", func() error { _, err := a.CreateTopic(w.ctx, "news", nil); return err }},
			{"admin-list", "$resources/topics", func() error { _, err := a.NewListTopicsPager(nil).NextPage(w.ctx); return err }},
			{"admin-create", "news/subscriptions/all", func() error { _, err := a.CreateSubscription(w.ctx, "news", "all", nil); return err }},
			{"admin-list", "news/subscriptions", func() error { _, err := a.NewListSubscriptionsPager("news", nil).NextPage(w.ctx); return err }},
			{"admin-create", "news/subscriptions/all/rules/r", func() error {
				_, err := a.CreateRule(w.ctx, "news", "all", &admin.CreateRuleOptions{Name: new("r")})
				return err
			}},
			{"admin-read", "news/subscriptions/all/rules/r", func() error { _, err := a.GetRule(w.ctx, "news", "all", "r", nil); return err }},
			{"admin-list", "news/subscriptions/all/rules", func() error { _, err := a.NewListRulesPager("news", "all", nil).NextPage(w.ctx); return err }},
			{"admin-delete", "news/subscriptions/all/rules/r", func() error { _, err := a.DeleteRule(w.ctx, "news", "all", "r", nil); return err }},
			{"admin-read", "$namespaceinfo", func() error { _, err := a.GetNamespaceProperties(w.ctx, nil); return err }},
			{"admin-delete", "jobs", func() error { _, err := a.DeleteQueue(w.ctx, "jobs", nil); return err }},
		} {
			w.arm("held", c.operation, func(r *control.Rule) { r.Match.Entity = c.entity })
			done := async(c.do)
			if f := w.reached("held"); f.Op.Service != "servicebus" || f.Op.Key != "" {
				t.Errorf("%s of %s: a rule saw %+v", c.operation, c.entity, f.Op)
			}
			w.release("held", "go")
			if err := <-done; err != nil {
				t.Errorf("%s of %s: %v", c.operation, c.entity, err)
			}
			w.must(w.hub.Disarm("held"))
		}
	})
}

func TestAChangeThatIsHeldIsNotMadeIfItsMakerGoes(t *testing.T) { // H2
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		for name, late := range map[string]bool{"jobs": false, "late": true} {
			w.arm(name, "admin-create", func(r *control.Rule) { r.Match.Entity, r.Late = name, late })
			ctx, leave := context.WithCancel(w.ctx)
			done := async(func() error { _, err := a.CreateQueue(ctx, name, nil); return err })
			w.reached(name)
			leave()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want it left", name, err)
			}
			w.must(w.hub.WaitPeerGone(w.ctx, name))
			w.release(name, "go")
			synctest.Wait()
			if q, err := a.GetQueue(w.ctx, name, nil); err != nil || (q != nil) != late {
				t.Errorf("%s: it is there: %v (%v), want %v", name, q != nil, err, late)
			}
		}
	})
}

func TestARuleAnswersForTheManagementAPI(t *testing.T) {
	managed(t, func(t *testing.T, w *world, _ *admin.Client) {
		w.arm("busy", "admin-read", func(r *control.Rule) {
			r.Do, r.Condition, r.Description, r.RetryAfter = "answer", "com.microsoft:server-busy", "Too busy.", control.Duration(1500*time.Millisecond)
		})
		a := w.ask(http.MethodGet, "/jobs", "", nil)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "2" || !strings.Contains(a.body, "Too busy.") {
			t.Errorf("answered %d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
		}
		if a := w.ask(http.MethodGet, "/jobs", "", http.Header{"Authorization": {"bad"}}); a.status != http.StatusUnauthorized {
			t.Errorf("a token that is none: %d, want it refused before a rule is asked", a.status)
		}
	})
}

// Over a socket a server learns that its client has gone only when it has read the client's request.
func TestAnIsolatedClientThatGivesUpIsLetGo(t *testing.T) { // H5
	hub := control.New()
	server, err := servicebus.New(hub, servicebus.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hub.Close(); _ = server.Close() })
	begun, ended := make(chan struct{}), make(chan struct{})
	life, end := context.WithCancel(t.Context())
	over := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		close(begun)
		server.Admin().ServeHTTP(w, r)
	}))
	over.Config.BaseContext = func(net.Listener) context.Context { return life }
	over.Start()
	defer over.Close()
	defer end() // what is still there
	hub.Isolate("worker-1")
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, over.URL+"/jobs", strings.NewReader("<entry/>"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "worker-1 azsdk-go-azservicebus/v1")
	asked := async(func() error {
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	})
	<-begun
	giveUp()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("an isolated client got %v", err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("its request is still there")
	}
}
