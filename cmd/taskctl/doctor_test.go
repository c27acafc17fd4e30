package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/emulator/control"
	cosmosemulator "oneeffect/emulator/cosmos"
	"oneeffect/emulator/door"
	brokeremulator "oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/internal/cosmos"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// system is both emulators on ports of their own, with the entities of
// emulator/config.json and the product's containers.
type system struct {
	hub   *control.Hub
	env   process.Environment
	store *cosmosemulator.Server

	manyWriters atomic.Bool // the account says that several regions are written to
}

// serveStore is the store, whose account says what it is told to say.
func (s *system) serveStore(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" || !s.manyWriters.Load() {
		s.store.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	s.store.ServeHTTP(answer, r)
	const member = `"enableMultipleWriteLocations":`
	w.Header().Set("Date", answer.Header().Get("Date"))
	w.WriteHeader(answer.Code)
	_, _ = io.WriteString(w, strings.Replace(answer.Body.String(), member+"false", member+"true", 1)) // to a test's own client
}

func startSystem(t *testing.T, change func(*broker.Config), consistency string) *system {
	t.Helper()
	file, err := os.Open("../../emulator/config.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	config, err := brokeremulator.ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&config.Namespace)
	}
	s := &system{hub: control.New()}
	bus, err := brokeremulator.New(s.hub, config)
	if err != nil {
		t.Fatal(err)
	}
	s.store = cosmosemulator.New(s.hub, cosmosemulator.Options{Consistency: consistency})
	web := httptest.NewServer(http.HandlerFunc(s.serveStore))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	amqp := func(ctx context.Context, c net.Conn) { _ = bus.ServeConn(ctx, c) } // its end says why
	serving.Go(func() {
		(&door.Door{AMQP: amqp, HTTP: bus.Admin(), Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l, func(err error) { t.Error(err) })
	})
	t.Cleanup(func() {
		s.hub.Close()
		stop()
		serving.Wait()
		web.CloseClientConnections()
		web.Close()
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
	s.env = process.Environment{
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://" + l.Addr().String() + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true",
		"ONEEFFECT_TASKCTL_COSMOS_ENDPOINT=" + web.URL,
	}
	return s
}

func (s *system) setUp(t *testing.T) {
	t.Helper()
	if got := taskctl(t, s.env, "setup"); got.code != exitOK {
		t.Fatalf("setup: %+v", got)
	}
}

// containers gives the test the SDK's own client of the database.
func (s *system) containers(t *testing.T, change func(*azcosmos.DatabaseClient) error) {
	t.Helper()
	key, err := azcosmos.NewKeyCredential(cosmosemulator.EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := azcosmos.NewClientWithKey(s.env.Get("ONEEFFECT_TASKCTL_COSMOS_ENDPOINT"), key, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Telemetry: policy.TelemetryOptions{ApplicationID: "test"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	db, err := c.NewDatabase(cosmos.DefaultDatabase)
	if err != nil {
		t.Fatal(err)
	}
	if err := change(db); err != nil {
		t.Fatal(err)
	}
}

func TestTheDoctorFindsTheEmulatorsHealthy(t *testing.T) {
	s := startSystem(t, nil, "")
	s.setUp(t)
	last := s.hub.Last()
	got := taskctl(t, s.env, "doctor")
	if got.code != exitOK || !strings.HasSuffix(got.out, " of 7 entities and containers, 0 broken\n") {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.errOut)
	}
	for _, relation := range []string{"H1 ", "H28 "} {
		if !strings.Contains(got.out, "\n"+relation) {
			t.Errorf("nothing is said of %s", relation)
		}
	}
	for _, e := range s.hub.Events(last) {
		if e.Operation == "create" || e.Operation == "replace" || strings.HasPrefix(e.Kind, "enqueued") {
			t.Errorf("something was changed: %+v", e)
		}
	}
	if got := taskctl(t, s.env, "doctor", "-o=json"); got.code != exitOK || !strings.HasPrefix(got.out, "[") {
		t.Errorf("as JSON: exit %d\n%s", got.code, got.out)
	}
}

// Each setting of each entity and container that something depends on, alone.
func TestTheDoctorFindsEachSettingThatIsWrong(t *testing.T) {
	subscription := func(topic string, change func(*broker.SubscriptionConfig)) func(*broker.Config) {
		return func(c *broker.Config) {
			for _, x := range c.Topics {
				if x.Name == topic {
					change(&x.Subscriptions[0])
				}
			}
		}
	}
	queue := func(change func(*broker.QueueConfig)) func(*broker.Config) {
		return func(c *broker.Config) { change(&c.Queues[0]) }
	}
	topic := func(name string, change func(*broker.TopicConfig)) func(*broker.Config) {
		return func(c *broker.Config) {
			for i := range c.Topics {
				if c.Topics[i].Name == name {
					change(&c.Topics[i])
				}
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*broker.Config)
		want   []string
	}{
		"lock of tasks":       {queue(func(q *broker.QueueConfig) { q.LockDuration = time.Minute }), []string{"H1: ", "tasks LockDuration 1m", "raise tasks LockDuration"}},
		"deliveries of tasks": {queue(func(q *broker.QueueConfig) { q.MaxDelivery = 5 }), []string{"H10: ", "tasks MaxDeliveryCount 5", "raise tasks MaxDeliveryCount"}},
		"life of tasks":       {queue(func(q *broker.QueueConfig) { q.TimeToLive = 30 * 24 * time.Hour }), []string{"H12: ", "tasks DefaultMessageTimeToLive 720h", "lower tasks DefaultMessageTimeToLive"}},
		"expired tasks":       {queue(func(q *broker.QueueConfig) { q.DeadLetterExpired = false }), []string{"H12: ", "switch on tasks DeadLetteringOnMessageExpiration"}},
		"window of tasks":     {queue(func(q *broker.QueueConfig) { q.DuplicateWindow = time.Minute }), []string{"H17: ", "tasks DuplicateDetectionHistoryTimeWindow 1m"}},
		"duplicates of tasks": {queue(func(q *broker.QueueConfig) { q.DetectDuplicates = false }), []string{"tasks: RequiresDuplicateDetection is off"}},
		"sessions of tasks":   {queue(func(q *broker.QueueConfig) { q.RequiresSession = true }), []string{"tasks: RequiresSession is on"}},
		"tasks that go on": {func(c *broker.Config) {
			c.Queues = append(c.Queues, c.Queues[0])
			c.Queues[1].Name, c.Queues[0].ForwardTo = "elsewhere", "elsewhere"
		}, []string{"tasks: ForwardTo is on"}},
		"tasks that nobody gets":  {queue(func(q *broker.QueueConfig) { q.Status = broker.ReceiveDisabled }), []string{"tasks: Status ReceiveDisabled is on"}},
		"events that nobody gets": {subscription("task-events", func(s *broker.SubscriptionConfig) { s.Status = broker.Disabled }), []string{"task-events/orchestrator: Status ReceiveDisabled is on"}},
		"no tasks":                {func(c *broker.Config) { c.Queues = nil }, []string{"tasks: is missing"}},
		"lock of events":          {subscription("task-events", func(s *broker.SubscriptionConfig) { s.LockDuration = time.Minute }), []string{"H1: ", "task-events/orchestrator LockDuration 1m"}},
		"life of events":          {subscription("task-events", func(s *broker.SubscriptionConfig) { s.TimeToLive = 5 * time.Minute }), []string{"H20: ", "task-events/orchestrator DefaultMessageTimeToLive 5m"}},
		"expired events":          {subscription("task-events", func(s *broker.SubscriptionConfig) { s.DeadLetterExpired = false }), []string{"H12: ", "task-events/orchestrator DeadLettering"}},
		"duplicates of events":    {topic("task-events", func(c *broker.TopicConfig) { c.DetectDuplicates, c.DuplicateWindow = true, time.Minute }), []string{"task-events/orchestrator: RequiresDuplicateDetection is on"}},
		"sessions of events":      {subscription("task-events", func(s *broker.SubscriptionConfig) { s.RequiresSession = true }), []string{"task-events/orchestrator: RequiresSession is on"}},
		"no events":               {func(c *broker.Config) { c.Topics = c.Topics[1:] }, []string{"task-events/orchestrator: is missing"}},
		"lock of reservations":    {subscription("reservations", func(s *broker.SubscriptionConfig) { s.LockDuration = time.Minute }), []string{"H1: ", "reservations/inventory LockDuration 1m"}},
		"life of reservations": {func(c *broker.Config) {
			topic("reservations", func(c *broker.TopicConfig) { c.TimeToLive = 60 * 24 * time.Hour })(c)
			subscription("reservations", func(s *broker.SubscriptionConfig) { s.TimeToLive = 60 * 24 * time.Hour })(c)
		}, []string{"H22: ", "reservations/inventory DefaultMessageTimeToLive 1440h"}},
		"expired reservations":   {subscription("reservations", func(s *broker.SubscriptionConfig) { s.DeadLetterExpired = false }), []string{"H12: ", "reservations/inventory DeadLettering"}},
		"duplicates of reserved": {topic("reservations", func(c *broker.TopicConfig) { c.DetectDuplicates, c.DuplicateWindow = true, time.Minute }), []string{"reservations/inventory: RequiresDuplicateDetection is on"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSystem(t, test.change, "")
			s.setUp(t)
			wantIll(t, taskctl(t, s.env, "doctor"), test.want)
		})
	}
}

func wantIll(t *testing.T, got outcome, want []string) {
	t.Helper()
	if got.code != exitFailed {
		t.Fatalf("exit %d, want %d\n%s%s", got.code, exitFailed, got.out, got.errOut)
	}
	for _, text := range want {
		if !strings.Contains(got.errOut, text) {
			t.Errorf("it does not say %q:\n%s", text, got.errOut)
		}
	}
}

func TestTheDoctorFindsEachContainerThatIsWrong(t *testing.T) {
	s := startSystem(t, nil, "Eventual")
	s.setUp(t)
	wantIll(t, taskctl(t, s.env, "doctor"), []string{"H28: ", "defaultConsistencyLevel Session (it is Eventual)", "a process does not see what it wrote"})

	s = startSystem(t, nil, "")
	s.setUp(t)
	s.manyWriters.Store(true)
	wantIll(t, taskctl(t, s.env, "doctor"), []string{"H28: ", "two regions grant one claim", "switch off enableMultipleWriteLocations"})

	for name, test := range map[string]struct {
		container, key string
		ttl            *int32
		want           []string
	}{
		"claims are kept for ever":      {"claims", "/id", nil, []string{"H28: ", "claims defaultTtl", "switch on claims defaultTtl"}},
		"receipts are kept for ever":    {"inventory", "/sku", nil, []string{"H28: ", "switch on inventory defaultTtl"}},
		"webhooks are kept for ever":    {"webhooks", "/resource", nil, []string{"H28: ", "switch on webhooks defaultTtl"}},
		"executions are forgotten soon": {"executions", "/executionId", new(int32(24 * 3600)), []string{"H16: ", "executions defaultTtl 24h", "raise executions defaultTtl"}},
		"claims are a day old":          {"claims", "/id", new(int32(24 * 3600)), []string{"container claims: default TTL is 86400 seconds"}},
		"another partition key":         {"inventory", "/id", new(int32(-1)), []string{"container inventory: partition key is /id, it must be /sku"}},
		"no container":                  {"webhooks", "", nil, []string{"container webhooks: is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSystem(t, nil, "")
			s.setUp(t)
			s.containers(t, func(db *azcosmos.DatabaseClient) error {
				c, err := db.NewContainer(test.container)
				if err == nil {
					_, err = c.Delete(t.Context(), nil)
				}
				if err != nil || test.key == "" {
					return err
				}
				_, err = db.CreateContainer(t.Context(), azcosmos.ContainerProperties{
					ID: test.container, DefaultTimeToLive: test.ttl,
					PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Paths: []string{test.key}, Version: 2},
				}, nil)
				return err
			})
			wantIll(t, taskctl(t, s.env, "doctor"), test.want)
		})
	}
}

func TestTheDoctorLooksAtAConfigurationAlone(t *testing.T) {
	good, err := os.ReadFile("../../emulator/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := taskctl(t, nil, "doctor", "--config=../../emulator/config.json"); got.code != exitOK || !strings.Contains(got.out, " of 3 entities and containers, 0 broken") || !strings.Contains(got.out, "unknown") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.errOut)
	}
	for name, test := range map[string]struct {
		old, new string
		code     int
		want     string
	}{
		"a lock":         {`"LockDuration": "PT5M"`, `"LockDuration": "PT1M"`, exitFailed, "H1: "},
		"deliveries":     {`"MaxDeliveryCount": 10`, `"MaxDeliveryCount": 20`, exitFailed, "H10: "},
		"a life":         {`"DefaultMessageTimeToLive": "PT1H"`, `"DefaultMessageTimeToLive": "P14D"`, exitFailed, "H18: "},
		"a window":       {`"DuplicateDetectionHistoryTimeWindow": "PT5M"`, `"DuplicateDetectionHistoryTimeWindow": "PT10M"`, exitFailed, "H18: "},
		"expiry":         {`"DeadLetteringOnMessageExpiration": true`, `"DeadLetteringOnMessageExpiration": false`, exitFailed, "H12: "},
		"no queue":       {`"Name": "tasks"`, `"Name": "task"`, exitFailed, "tasks: is missing"},
		"no duration":    {`"PT5M"`, `"five minutes"`, exitUsage, `read a duration "five minutes"`},
		"no JSON at all": {`{`, `<`, exitUsage, "read entities"},
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(good), test.old, test.new)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := taskctl(t, nil, "doctor", "--config="+path); got.code != test.code || !strings.Contains(got.errOut, test.want) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", name, got.code, test.code, test.want, got.errOut)
		}
	}
}
