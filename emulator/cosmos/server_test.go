package cosmos_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/broken"
	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

// world is one account with database "oneeffect", and the real SDK to use it with.
type world struct {
	t      *testing.T
	hub    *control.Hub
	server *cosmos.Server
	client *azcosmos.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, cosmos.Options{})
}

func newWorldWith(t *testing.T, o cosmos.Options) *world {
	t.Helper()
	return newWorldOn(t, control.New(), o)
}

func newWorldOn(t *testing.T, hub *control.Hub, o cosmos.Options) *world {
	t.Helper()
	w := &world{t: t, hub: hub}
	broken.Break(t, w.hub)
	w.server = cosmos.New(w.hub, o)
	if *kept {
		w.server = must2(cosmos.Open(w.hub, o, t.TempDir()))(t)
	}
	t.Cleanup(func() {
		w.hub.Close()
		_ = w.server.Close()
	})
	w.client = w.connect("setup", cosmos.EmulatorKey)
	if _, err := w.client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "oneeffect"}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// connect makes a client that is known by an application id, and that tries once.
func (w *world) connect(application, key string) *azcosmos.Client {
	w.t.Helper()
	return w.connectWith(application, key, policy.RetryOptions{MaxRetries: -1})
}

func (w *world) connectWith(application, key string, retries policy.RetryOptions) *azcosmos.Client {
	w.t.Helper()
	return w.connectOver(w.server.Transport(), application, key, retries)
}

func (w *world) connectOver(transport policy.Transporter, application, key string, retries policy.RetryOptions) *azcosmos.Client {
	w.t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey("http://cosmos.test:8081/", credential, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: transport,
		Telemetry: policy.TelemetryOptions{ApplicationID: application},
		Retry:     retries,
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// container makes one partitioned by the given paths and gives the first client's
// handle on it.
func (w *world) container(id string, paths ...string) *azcosmos.ContainerClient {
	w.t.Helper()
	return w.containerWith(azcosmos.ContainerProperties{
		ID: id, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: paths, Version: 2},
	})
}

func (w *world) containerWith(properties azcosmos.ContainerProperties) *azcosmos.ContainerClient {
	w.t.Helper()
	database, err := w.client.NewDatabase("oneeffect")
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := database.CreateContainer(w.t.Context(), properties, nil); err != nil {
		w.t.Fatal(err)
	}
	return w.on(w.client, properties.ID)
}

// on gives a client's handle on a container.
func (w *world) on(client *azcosmos.Client, container string) *azcosmos.ContainerClient {
	w.t.Helper()
	c, err := client.NewContainer("oneeffect", container)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func pk(text string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(text) }

// status gives the HTTP status of an error of the SDK, 0 if it has none.
func status(err error) int {
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return refusal.StatusCode
	}
	return 0
}

// headersOf are those of a refusal; none of an error that is not one.
func headersOf(err error) http.Header {
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return refusal.RawResponse.Header
	}
	return nil
}

func substatus(err error) string { return headersOf(err).Get("x-ms-substatus") }

func wantStatus(t *testing.T, err error, want int) {
	t.Helper()
	if got := status(err); got != want {
		t.Fatalf("got status %d (%v), want %d", got, err, want)
	}
}

// decode reads a document.
func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m
}

func withBody() *azcosmos.ItemOptions {
	return &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}
}

func ifMatch(etag azcore.ETag) *azcosmos.ItemOptions {
	return &azcosmos.ItemOptions{IfMatchEtag: &etag}
}

// query collects all results and the number of pages.
func query(t *testing.T, c *azcosmos.ContainerClient, sql string, key azcosmos.PartitionKey, o *azcosmos.QueryOptions) (results []string, pages int, err error) {
	t.Helper()
	pager := c.NewQueryItemsPager(sql, key, o)
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			return results, pages, err
		}
		pages++
		for _, item := range page.Items {
			results = append(results, string(item))
		}
	}
	return results, pages, nil
}

func TestAnItemIsCreatedReadReplacedAndDeleted(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	created := must2(c.CreateItem(t.Context(), pk("82f3"), []byte(`{"id":"82f3","n":12345678901234567890,"z":1,"a":1.50}`), nil))(t)
	if created.RawResponse.StatusCode != http.StatusCreated || len(created.Value) != 0 || created.ETag == "" || created.SessionToken == nil {
		t.Fatalf("create: %+v", created)
	}
	read := must2(c.ReadItem(t.Context(), pk("82f3"), "82f3", nil))(t)
	if read.ETag != created.ETag {
		t.Errorf("read etag %s, want %s", read.ETag, created.ETag)
	}
	if !strings.HasPrefix(string(read.Value), `{"id":"82f3","n":12345678901234567890,"z":1,"a":1.50,"_rid":`) {
		t.Errorf("the document did not come back as it was sent: %s", read.Value)
	}
	if body := decode(t, read.Value); body["_etag"] != string(read.ETag) || body["_attachments"] != "attachments/" {
		t.Errorf("system properties: %v", body)
	}
	replaced := must2(c.ReplaceItem(t.Context(), pk("82f3"), "82f3", []byte(`{"id":"82f3","n":2}`), withBody()))(t)
	if replaced.ETag == read.ETag || decode(t, replaced.Value)["n"] != 2.0 {
		t.Errorf("replace: %s %s", replaced.ETag, replaced.Value)
	}
	deleted := must2(c.DeleteItem(t.Context(), pk("82f3"), "82f3", nil))(t)
	if deleted.RawResponse.StatusCode != http.StatusNoContent {
		t.Errorf("delete: %d", deleted.RawResponse.StatusCode)
	}
	_, err := c.ReadItem(t.Context(), pk("82f3"), "82f3", nil)
	wantStatus(t, err, http.StatusNotFound)
}

// must2 lets a call with two results be checked in one line.
func must2[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAWrongKeyIsRefused(t *testing.T) { // V5
	w := newWorld(t)
	w.container("claims", "/id")
	intruder := w.connect("intruder", "d3Jvbmcga2V5")
	_, err := w.on(intruder, "claims").CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Fatalf("got %v, want 401", err)
	}
	if err := w.hub.Switch("cosmos.auth", true); err != nil {
		t.Fatal(err)
	}
	intruder = w.connect("intruder", "d3Jvbmcga2V5")
	if _, err := w.on(intruder, "claims").CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil); err != nil {
		t.Fatalf("with the switch off: %v", err)
	}
}

// lastRequest gives the newest event of a request.
func (w *world) lastRequest() control.Event {
	w.t.Helper()
	var last control.Event
	for _, e := range w.hub.Events(0) {
		if e.Kind == "request" {
			last = e
		}
	}
	return last
}
