package cosmos_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

// What the in-process tests show holds over real connections too: HTTP/1.1 in
// the clear, and HTTP/2 over TLS, where one connection carries many requests.
func TestOverRealConnections(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"HTTP/2": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := control.New()
			server := httptest.NewUnstartedServer(cosmos.New(hub, cosmos.Options{}))
			start(server)
			t.Cleanup(server.Close)
			t.Cleanup(hub.Close)
			credential := must2(azcosmos.NewKeyCredential(cosmos.EmulatorKey))(t)
			client := must2(azcosmos.NewClientWithKey(server.URL, credential, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
				Transport: server.Client(),
				Telemetry: policy.TelemetryOptions{ApplicationID: "worker-1"},
				// Over HTTP/2 a drop is a stream that is reset, which the SDK, unlike a
				// connection that is cut, takes for worth another try, writes included.
				Retry: policy.RetryOptions{MaxRetries: -1},
			}}))(t)
			t.Cleanup(client.Close)
			must2(client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "oneeffect"}, nil))(t)
			database := must2(client.NewDatabase("oneeffect"))(t)
			must2(database.CreateContainer(t.Context(), azcosmos.ContainerProperties{
				ID: "claims", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
			}, nil))(t)
			c := must2(database.NewContainer("claims"))(t)

			before := must2(hub.Arm(control.Rule{Do: "hold", Match: control.Match{Service: "cosmos", Operation: "create", Key: "1"}}))(t)
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := c.CreateItem(ctx, pk("1"), []byte(`{"id":"1"}`), nil)
				ended <- err
			}()
			must2(hub.WaitReached(t.Context(), before))(t)
			leave()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the client saw %v", err)
			}
			if err := hub.WaitPeerGone(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			if err := hub.Disarm(before); err != nil {
				t.Fatal(err)
			}
			_, err := c.ReadItem(t.Context(), pk("1"), "1", nil)
			wantStatus(t, err, http.StatusNotFound)

			must2(hub.Arm(control.Rule{When: "after", Do: "drop", Match: control.Match{Service: "cosmos", Operation: "create", Key: "2"}}))(t)
			_, err = c.CreateItem(t.Context(), pk("2"), []byte(`{"id":"2"}`), nil)
			if err == nil || status(err) != 0 || name == "HTTP/1.1" && !errors.Is(err, io.EOF) {
				t.Errorf("the client saw %v", err)
			}
			must2(c.ReadItem(t.Context(), pk("2"), "2", nil))(t)

			_, err = c.CreateItem(t.Context(), pk("3"), []byte(`{"id":"3","p":"`+strings.Repeat("x", 16<<20)+`"}`), nil)
			wantStatus(t, err, http.StatusRequestEntityTooLarge)
		})
	}
}
