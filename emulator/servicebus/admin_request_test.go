package servicebus_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"oneeffect/emulator/inprocess"
)

// description is a document as clients send it.
func description(kind, members string) string {
	return fmt.Sprintf(`<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">`+
		`<%s xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">%s</%s></content></entry>`, kind, members, kind)
}

func TestRequestsThatMeanNothingAreRefusedByName(t *testing.T) { // M6
	queue := description("QueueDescription", "")
	for _, row := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/", "", 404, "names nothing of this API"},
		{"GET", "/$metadata", "", 404, "/$metadata names nothing"},
		{"GET", "/t/Subscriptions/s/Keys", "", 404, "names nothing"},
		{"GET", "/t/Subscriptions/s/Rules/r/x", "", 404, "names nothing"},
		{"POST", "/q", queue, 405, "POST /q is not supported by this emulator"},
		{"PUT", "/$namespaceinfo", "", 405, "PUT /$namespaceinfo"},
		{"DELETE", "/$Resources/Queues", "", 405, "DELETE /$Resources/Queues"},
		{"PUT", "/t/Subscriptions", "", 405, "PUT /t/Subscriptions"},
		{"DELETE", "/t/Subscriptions/s/Rules", "", 405, "DELETE /t/Subscriptions/s/Rules"},
		{"PUT", "/q", "", 400, "the element entry is missing"},
		{"PUT", "/q", "not XML", 400, "the element entry is missing"},
		{"PUT", "/q", "<entry><content/></entry>", 400, "the element with the description is missing"},
		{"PUT", "/q", "<entry><content><QueueDescription></content></entry>", 400, "QueueDescription"},
		{"PUT", "/q", description("EventHubDescription", ""), 400, "EventHubDescription describes neither a queue nor a topic"},
		{"PUT", "/q", description("QueueDescription", "<MaxDeliveryCount>many</MaxDeliveryCount>"), 400, "many"},
		{"PUT", "/t/Subscriptions/s", queue, 400, "the element SubscriptionDescription is missing"},
		{"PUT", "/t/Subscriptions/s/Rules/r", description("RuleDescription", `<Filter i:type="MagicFilter" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"/>`), 400, `the type "MagicFilter" is not known`},
		{"PUT", "/q", "<entry>" + strings.Repeat(" ", 1<<20), 413, "too large"},
		{"GET", "/q?api-version=2030-01", "", 400, `api-version "2030-01" is not supported`},
		{"GET", "/q?api-version=2024-06", "", 400, `api-version "2024-06" is not supported`},
		{"GET", "/q?api-version=latest", "", 400, "those up to 2024-05"},
		{"GET", "/$Resources/Queues?$skip=-1", "", 400, "$skip must be a number of at least 0"},
		{"GET", "/$Resources/Topics?$top=x", "", 400, "$top must be a number of at least 0"},
	} {
		managed(t, func(t *testing.T, w *world, a *admin.Client) {
			w.createTopic(a, "t", "s")
			r := w.ask(row.method, row.path, row.body, nil)
			if r.status != row.status || !strings.Contains(r.body, row.says) || !strings.Contains(r.body, fmt.Sprintf("<Error><Code>%d</Code><Detail>", row.status)) {
				t.Errorf("%s %s: %d %s; want %d with %q", row.method, row.path, r.status, r.body, row.status, row.says)
			}
			if kind := r.header.Get("Content-Type"); kind != "application/xml; charset=utf-8" {
				t.Errorf("%s %s is answered with %s", row.method, row.path, kind)
			}
			queues, topics := w.ask("GET", "/$Resources/Queues", "", nil), w.ask("GET", "/$Resources/Topics", "", nil)
			rules := w.ask("GET", "/t/Subscriptions/s/Rules", "", nil)
			if strings.Contains(queues.body, "<entry") || strings.Count(topics.body, "<entry") != 1 || strings.Count(rules.body, "<entry") != 1 {
				t.Errorf("%s %s has changed something: %s\n%s\n%s", row.method, row.path, queues.body, topics.body, rules.body)
			}
		})
	}
}

func TestAnAnswerIsWhatItsVersionKnows(t *testing.T) { // M6
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createTopic(a, "t", "s")
		for version, wants := range map[string][2]bool{"": {}, "?api-version=2017-04": {}, "?api-version=2021-05": {true, false}, "?api-version=2024-05": {true, true}} {
			r := w.ask(http.MethodGet, "/t"+version, "", nil)
			if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/atom+xml;type=entry;charset=utf-8" {
				t.Errorf("%q: %d %s", version, r.status, r.header)
			}
			if has := strings.Contains(r.body, "<MaxMessageSizeInKilobytes>256<"); has != wants[0] {
				t.Errorf("%q: the size of a message is said: %v", version, has)
			}
			if has := strings.Contains(r.body, "<SqlFilterCount>1<") && strings.Contains(r.body, "<CorrelationFilterCount>0<"); has != wants[1] {
				t.Errorf("%q: filters are counted: %v", version, has)
			}
		}
	})
}

func TestAListHasTheAddressOfWhatFollows(t *testing.T) { // M7
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		for _, name := range []string{"a", "b", "c"} {
			w.createQueue(a, name, nil)
		}
		r := w.ask(http.MethodGet, "/$Resources/Queues?$top=2&api-version=2021-05", "", nil)
		const next = `<link rel="next" href="http://localhost/$Resources/Queues?%24skip=2&amp;%24top=2&amp;api-version=2021-05">`
		if !strings.Contains(r.body, next) || strings.Count(r.body, "<entry>") != 2 {
			t.Errorf("the first page: %s", r.body)
		}
		r = w.ask(http.MethodGet, "/$Resources/Queues?$skip=2&$top=2", "", nil)
		if strings.Contains(r.body, `rel="next"`) || strings.Count(r.body, "<entry>") != 1 || r.header.Get("Content-Type") != "application/atom+xml;type=feed;charset=utf-8" {
			t.Errorf("the last page: %s", r.body)
		}
	})
}

func TestAQueueThatIsNotThereIsAnEmptyList(t *testing.T) { // M2
	managed(t, func(t *testing.T, w *world, _ *admin.Client) {
		r := w.ask(http.MethodGet, "/none", "", nil)
		if r.status != http.StatusOK || !strings.Contains(r.body, "<feed") || !strings.Contains(r.body, "Publicly Listed Services") || strings.Contains(r.body, "<entry") {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := w.ask(http.MethodGet, "/none/Subscriptions/s", "", nil); r.status != http.StatusNotFound {
			t.Errorf("a subscription of nothing: %d %s", r.status, r.body)
		}
	})
}

func TestWhoMayNotManageIsToldInTheServicesWords(t *testing.T) { // M8
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createQueue(a, "q", nil)
		w.createTopic(a, "t", "s")
		for _, key := range []string{"NoManage", "SendOnly", "ListenOnly"} {
			b := w.managementBy(key)
			refused := func(_ any, err error) func(...string) {
				return func(texts ...string) { t.Helper(); w.wantStatus(err, http.StatusUnauthorized, texts...) }
			}
			refused(b.GetQueue(w.ctx, "q", nil))("Manage,EntityRead claims")
			refused(b.GetTopic(w.ctx, "t", nil))("Manage,EntityRead claims")
			refused(b.NewListQueuesPager(nil).NextPage(w.ctx))("Manage,EntityRead claims required for this operation")
			refused(b.CreateQueue(w.ctx, "n", nil))("Authorization failed for specified action: Manage,EntityWrite")
			refused(b.UpdateTopic(w.ctx, "t", admin.TopicProperties{}, nil))("Authorization failed for specified action: Manage,EntityWrite")
			refused(b.DeleteQueue(w.ctx, "q", nil))("Authorization failed for specified action: Manage,EntityDelete.")
			refused(b.GetNamespaceProperties(w.ctx, nil))("Manage,EntityRead")
			refused(b.GetSubscription(w.ctx, "t", "s", nil))("401 SubCode=40100", "'GetSubscription' operation on endpoint 'sb://sbemulatorns.", "/t/Subscriptions/s'")
			refused(b.CreateSubscription(w.ctx, "t", "n", nil))("SubCode=40100: Unauthorized : Unauthorized access for 'CreateOrUpdateSubscription'")
			refused(b.DeleteSubscription(w.ctx, "t", "s", nil))("'DeleteSubscription'")
			refused(b.NewListSubscriptionsPager("t", nil).NextPage(w.ctx))("'EnumerateSubscriptions'")
			refused(b.CreateRule(w.ctx, "t", "s", &admin.CreateRuleOptions{Name: new("r")}))("'CreateOrUpdateRule'")
			refused(b.NewListRulesPager("t", "s", nil).NextPage(w.ctx))("'EnumerateRules'")
			refused(b.DeleteRule(w.ctx, "t", "s", "$Default", nil))("'DeleteRule'")
			if got, err := b.GetQueue(w.ctx, "none", nil); got != nil || err != nil {
				t.Errorf("what is not there is %+v, %v, also to one who may not see it", got, err)
			}
		}
		if got, err := a.GetQueue(w.ctx, "q", nil); got == nil || err != nil {
			t.Errorf("after all that the queue is %+v, %v", got, err)
		}
	})
}

func TestATokenOfTheManagementAPIIsChecked(t *testing.T) { // M8
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createQueue(a, "q", nil)
		later := w.hub.Now().Add(time.Hour)
		for name, row := range map[string]struct {
			token, says string // nothing if it is good
		}{
			"none":                       {"", "MissingToken"},
			"a web token":                {"good", ""},
			"a web token, with a scheme": {"Bearer good", ""},
			"a forged one":               {"bad", "InvalidToken: forged"},
			"for the namespace":          {token("https://localhost/", later), ""},
			"for the whole address":      {token("https://localhost/q?api-version=2021-05", later), ""},
			"for another queue":          {token("https://localhost/other", later), "InvalidAudience"},
			"that is over":               {token("https://localhost/", w.hub.Now()), "ExpiredToken: The token is expired. Expiration time:"},
			"by another key":             {signature("https://localhost/", "OTHER", later), "invalid signature"},
		} {
			r := w.ask(http.MethodGet, "/q?api-version=2021-05", "", http.Header{"Authorization": {row.token}})
			if row.says == "" && r.status != http.StatusOK || row.says != "" && (r.status != http.StatusUnauthorized || !strings.Contains(r.body, row.says)) {
				t.Errorf("a token %s: %d %s", name, r.status, r.body)
			}
		}
		r := w.ask(http.MethodPut, "/n", description("QueueDescription", "<ForwardTo>q</ForwardTo>"), http.Header{"Servicebussupplementaryauthorization": {"bad"}})
		if r.status != http.StatusUnauthorized || !strings.Contains(r.body, "InvalidToken: forged") {
			t.Errorf("a bad token for where messages go on to: %d %s", r.status, r.body)
		}
	})
}

func TestAnIsolatedClientManagesNothing(t *testing.T) {
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		w.createQueue(a, "q", nil)
		w.hub.Isolate("worker-1")
		transport := inprocess.Transport(w.server.Admin())
		defer transport.Close()
		ctx, cancel := context.WithTimeout(w.ctx, time.Hour)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodDelete, "https://localhost/q", http.NoBody)
		w.must(err)
		r.Header.Set("Authorization", "good")
		r.Header.Set("User-Agent", "worker-1 azsdk-go-azservicebus/v1.11.0")
		start := time.Now()
		response, err := transport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Hour {
			t.Errorf("answered after %v: %v", time.Since(start), err)
		}
		if got, err := a.GetQueue(w.ctx, "q", nil); got == nil || err != nil {
			t.Errorf("the queue is %+v, %v", got, err)
		}
	})
}

func TestAClosedServerManagesNothing(t *testing.T) {
	managed(t, func(t *testing.T, w *world, _ *admin.Client) {
		w.must(w.server.Close())
		if r := w.ask(http.MethodGet, "/q", "", nil); r.status != http.StatusServiceUnavailable {
			t.Errorf("answered %d %s", r.status, r.body)
		}
	})
}
