package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/coder/websocket"

	"oneeffect/emulator/cosmos"
)

// secured is the program and how clients that trust it come in.
type secured struct {
	*program
	trust *tls.Config
	https *http.Client
}

func startSecured(t *testing.T, args ...string) *secured {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	p := start(t, append(args, "-ca-file", path)...)
	text, err := os.ReadFile(path) // it is there before the program says that it is ready
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s is no certificate: %s", path, text)
	}
	trust := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &secured{p, trust, &http.Client{Transport: transport}}
}

// end stops the program once the clients have left.
func (s *secured) end() {
	s.t.Helper()
	s.https.CloseIdleConnections()
	s.program.end()
}

// sendAndReceive takes one message through the real SDK, there and back.
func sendAndReceive(t *testing.T, c *azservicebus.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	sender, err := c.NewSender("tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(strings.Repeat("0123456789abcdef", 10_000)) // more than one frame and more than one TLS record
	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: body}, nil); err != nil {
		t.Fatalf("send: %v", err)
	}
	receiver, err := c.NewReceiverForQueue("tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil || len(got) != 1 || string(got[0].Body) != string(body) {
		t.Fatalf("received %d messages, not the one that was sent: %v", len(got), err)
	}
	if err := receiver.CompleteMessage(ctx, got[0], nil); err != nil {
		t.Fatalf("complete: %v", err)
	}
	if err := c.Close(ctx); err != nil {
		t.Fatalf("close: %v", err)
	}
}

const sharedAccess = ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"

// webSocketDialer opens WebSockets as the SDK's documentation shows it. The SDK
// names no port, so the real address is put in.
func webSocketDialer(client *http.Client, address, path string) func(context.Context, azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
	return func(ctx context.Context, args azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
		if want := "wss://" + address + webSocketPath; args.Host != want {
			return nil, errors.New("the SDK wants to go to " + args.Host + ", not to " + want)
		}
		c, _, err := websocket.Dial(ctx, "wss://"+address+path, &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{"amqp"}})
		if err != nil {
			return nil, err
		}
		return websocket.NetConn(context.WithoutCancel(ctx), c, websocket.MessageBinary), nil
	}
}

func TestTheRealServiceBusSDKComesInByEveryRoad(t *testing.T) {
	s := startSecured(t, "-msi", "127.0.0.1:0")
	address := s.address["amqp"]
	sas := "Endpoint=sb://" + address + sharedAccess
	t.Setenv("IDENTITY_ENDPOINT", "http://"+s.address["msi"]+"/msi")
	t.Setenv("IDENTITY_HEADER", "x")
	for name, connect := range map[string]func() (*azservicebus.Client, error){
		"AMQP": func() (*azservicebus.Client, error) {
			return azservicebus.NewClientFromConnectionString(sas+";UseDevelopmentEmulator=true", nil)
		},
		"AMQP over TLS": func() (*azservicebus.Client, error) {
			return azservicebus.NewClientFromConnectionString(sas, &azservicebus.ClientOptions{TLSConfig: s.trust})
		},
		"AMQP over TLS, with a name that is not in the address": func() (*azservicebus.Client, error) {
			named := s.trust.Clone()
			named.ServerName = "localhost"
			return azservicebus.NewClientFromConnectionString(sas, &azservicebus.ClientOptions{TLSConfig: named})
		},
		"AMQP over WebSocket": func() (*azservicebus.Client, error) {
			return azservicebus.NewClientFromConnectionString(sas, &azservicebus.ClientOptions{NewWebSocketConn: webSocketDialer(s.https, address, webSocketPath)})
		},
		"AMQP over WebSocket, in other letters": func() (*azservicebus.Client, error) {
			return azservicebus.NewClientFromConnectionString(sas, &azservicebus.ClientOptions{NewWebSocketConn: webSocketDialer(s.https, address, "/$ServiceBus/WebSocket")})
		},
		"AMQP over TLS, with a managed identity": func() (*azservicebus.Client, error) {
			options := &azidentity.ManagedIdentityCredentialOptions{ID: azidentity.ClientID(rand.Text())} // or the library takes another test's token
			options.Transport = s.client
			credential, err := azidentity.NewManagedIdentityCredential(options)
			if err != nil {
				return nil, err
			}
			return azservicebus.NewClient(address, credential, &azservicebus.ClientOptions{TLSConfig: s.trust})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			sendAndReceive(t, c)
		})
	}
	s.end()
}

func TestServiceBusListensAtSeveralAddressesAtOnce(t *testing.T) {
	s := startSecured(t, "-amqp", "127.0.0.1:0,127.0.0.9:0", "-amqp", "127.0.0.8:0")
	if len(s.listening["amqp"]) != 4 { // with the one that every test has
		t.Errorf("it listens on %v", s.listening["amqp"])
	}
	for _, address := range s.listening["amqp"] {
		c, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+address+sharedAccess, &azservicebus.ClientOptions{TLSConfig: s.trust})
		if err != nil {
			t.Fatal(err)
		}
		sendAndReceive(t, c)
	}
	s.end()
}

func TestTheRealCosmosSDKComesInByHTTPS(t *testing.T) {
	s := startSecured(t)
	credential, err := azcosmos.NewKeyCredential(cosmos.EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"https://", "http://"} { // at the same port
		client, err := azcosmos.NewClientWithKey(scheme+s.address["cosmos"], credential, &azcosmos.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: s.https},
		})
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(scheme, "://")
		if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: name}, nil); err != nil {
			t.Fatal(err)
		}
		database, err := client.NewDatabase(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := database.CreateContainer(t.Context(), azcosmos.ContainerProperties{
			ID: "claims", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
		}, nil); err != nil {
			t.Fatal(err)
		}
		container, err := database.NewContainer("claims")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := container.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("1"), []byte(`{"id":"1"}`), nil); err != nil {
			t.Fatal(err)
		}
		// A drop is a connection that is cut, also under TLS: the SDK, which would
		// send again what was merely reset, cannot know what has become of it.
		s.want(201, "POST", "control", "/control/rules", `{"name":"cut-`+name+`","when":"after","do":"drop","match":{"service":"cosmos","operation":"create","key":"2"}}`)
		if _, err := container.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("2"), []byte(`{"id":"2"}`), nil); !errors.Is(err, io.EOF) {
			t.Errorf("%s: a dropped answer is seen as %v", name, err)
		}
		s.want(204, "DELETE", "control", "/control/rules/cut-"+name, "")
		if _, err := container.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("2"), "2", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		client.Close()
	}
	s.end()
}

func TestTheRealCosmosSDKComesInWithAManagedIdentity(t *testing.T) {
	s := startSecured(t, "-msi", "127.0.0.1:0")
	t.Setenv("IDENTITY_ENDPOINT", "http://"+s.address["msi"]+"/msi")
	t.Setenv("IDENTITY_HEADER", "x")
	_, port, err := net.SplitHostPort(s.address["cosmos"])
	if err != nil {
		t.Fatal(err)
	}
	create := func(endpoint, audience string) error {
		options := &azidentity.ManagedIdentityCredentialOptions{ID: azidentity.ClientID(rand.Text())} // or the library takes another test's token
		options.Transport = s.client
		credential, err := azidentity.NewManagedIdentityCredential(options)
		if err != nil {
			return err
		}
		o := azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s.https, Retry: policy.RetryOptions{MaxRetries: -1}}}
		if audience != "" {
			o.Cloud = cloud.Configuration{Services: map[cloud.ServiceName]cloud.ServiceConfiguration{azcosmos.ServiceName: {Audience: audience}}}
		}
		client, err := azcosmos.NewClient(endpoint, credential, &o)
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: rand.Text()}, nil)
		return err
	}
	for name, test := range map[string]struct{ endpoint, audience string }{
		"by address":             {"https://127.0.0.1:" + port, ""},
		"by name":                {"https://localhost:" + port, ""},
		"without TLS":            {"http://localhost:" + port, ""},
		"with a token for all":   {"https://localhost:" + port, "https://cosmos.azure.com"},
		"by either of its names": {"https://127.0.0.1:" + port, "https://localhost"},
	} {
		if err := create(test.endpoint, test.audience); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err = create("https://localhost:"+port, "https://servicebus.azure.net")
	if err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "InvalidAudience") {
		t.Errorf("with a token for another service: %v", err)
	}
	s.end()
}

func TestEveryListenerAnswersHTTPAndHTTPS(t *testing.T) {
	s := startSecured(t, "-msi", "127.0.0.1:0")
	for _, test := range []struct {
		door, path string
		status     int
		says       string
	}{
		{"amqp", "/health", 200, `{"status":"healthy","message":"Service is healthy."}`},
		{"amqp", webSocketPath, 426, "WebSocket"},
		{"cosmos", "/", 401, ""},
		{"downstream", "/ledger", 200, ""},
		{"control", "/healthz", 200, ""},
		{"msi", "/msi", 401, "X-IDENTITY-HEADER"},
	} {
		for _, scheme := range []string{"http://", "https://"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+s.address[test.door]+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := s.https.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil || answer.StatusCode != test.status || !strings.Contains(string(body), test.says) {
				t.Errorf("%s%s: %s %s (%v), want %d and %q", scheme, test.door, answer.Status, body, err, test.status, test.says)
			}
			if answer.ProtoMajor != 1 {
				t.Errorf("%s%s speaks %s", scheme, test.door, answer.Proto)
			}
			if scheme == "https://" && answer.Header.Get("Content-Type") == "application/json" && !json.Valid(body) {
				t.Errorf("%s says %s", test.door, body)
			}
		}
	}
	s.end()
}

func TestAQueueNamedHealthIsNotTheHealth(t *testing.T) {
	s := startSecured(t)
	status, text, err := s.do(t.Context(), http.MethodGet, "amqp", "/health?api-version=2024-05", "")
	if err != nil || status != http.StatusUnauthorized || strings.Contains(text, "healthy") { // no token was sent
		t.Errorf("%d %s, %v", status, text, err)
	}
	s.end()
}

func TestTheEmulatorsEndWithClientsOfEveryRoad(t *testing.T) {
	s := startSecured(t)
	address := s.address["amqp"]
	var connections []net.Conn
	for range 4 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		connections = append(connections, c)
	}
	for i, first := range []string{"AMQP\x03\x01\x00\x00", "\x16\x03\x01", "GET /hea"} { // the last one says nothing
		if _, err := io.WriteString(connections[i], first); err != nil {
			t.Fatal(err)
		}
	}
	layer := tls.Client(connections[3], &tls.Config{RootCAs: s.trust.RootCAs, ServerName: "localhost"})
	if err := layer.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, options := range []*azservicebus.ClientOptions{
		{TLSConfig: s.trust, RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}},
		{NewWebSocketConn: webSocketDialer(s.https, address, webSocketPath), RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}},
	} {
		c, err := azservicebus.NewClientFromConnectionString("Endpoint=sb://"+address+sharedAccess, options)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.WithoutCancel(t.Context()))
		sender, err := c.NewSender("tasks", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("{}")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	s.end()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
}
