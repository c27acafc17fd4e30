// Package internal_test holds the architecture: which package may import which,
// as data, and a test that reads the tree and says where it differs.
//
//	cmd ──▶ story ──▶ guards ──▶ message     (diagram: the story's picture, pure)
//	 │                  ▲           ▲
//	 └────▶ adapters ───┴───────────┘         emulator: knows none of them
//
// Test files may go further, since a test of the story wires real adapters to
// real emulators; the witness, emulator/, stays blind to internal/ even there.
package internal_test

import (
	"os"
	"testing"
)

// A ring is what packages at one depth of the architecture have in common.
type ring struct {
	may  []string // rings and packages of this module that it may import
	not  []string // packages of the standard library that do not belong in it
	rule string   // the sentence that a failure ends with
}

var rings = map[string]ring{
	"leaf": {
		not:  impure,
		rule: "message is the leaf: it says what travels, knows nobody and does nothing",
	},
	"guard": {
		may: []string{"leaf"}, not: impure,
		rule: "a guard decides purely: it knows messages only, and does no I/O and no logging",
	},
	"picture": {
		may: []string{"guard", "leaf"}, not: impure,
		rule: "a picture is drawn from what is given: it knows the guards' words, and does no I/O and no logging",
	},
	"story": {
		may: []string{"picture", "guard", "leaf"}, not: []string{"flag", "net", "os", "os/signal"},
		rule: "the story knows guards and messages only, and the picture that it shows of itself",
	},
	"page": {
		may: []string{"story", "picture", "guard", "leaf"}, not: []string{"flag", "net", "os", "os/signal"},
		rule: "the page shows the orchestrator's answers and its pictures, and reaches nothing else",
	},
	"adapter": {
		may: []string{"guard", "leaf"}, not: onlyCommands,
		rule: "an adapter knows guards, messages and its SDK, never the story and never another adapter",
	},
	"support": {
		not:  onlyCommands,
		rule: "telemetry and horizon stand alone: commands pass on what they make",
	},
	"evidence": {
		may: []string{"story", "adapter", "guard", "leaf", "evidence"}, not: onlyCommands,
		rule: "evidence probes the story, its guards and its adapters",
	},
	"process": {
		may:  []string{"adapter", "support", "leaf"},
		rule: "what all processes do alike is to read settings, to connect, to serve and to receive: it knows adapters, support and messages, never the story",
	},
	"access": {
		may:  []string{"story"},
		rule: "access finds out who asks, and tells the story, which says what they may",
	},
	"command": {
		may:  []string{"access", "process", "story", "picture", "page", "adapter", "guard", "leaf", "support", "evidence"},
		rule: "a command wires what stands in internal/ and never the emulator, which it starts as a process or reaches over the wire",
	},
	"worker's benchmark": {
		may:  []string{"process", "story", "adapter", "guard", "leaf", "support", "measure"},
		rule: "a benchmark of the product wires it as a command does, and starts the emulator as a process",
	},
	"facts": {
		may:  []string{"story", "adapter", "guard", "leaf", "support", "evidence"},
		rule: "facts tells the check of infra/ what the code relies on: it reads internal/ and wires nothing",
	},
	"emulator layer": {
		not:  onlyCommands,
		rule: "this layer of the emulator stands alone: nothing of Service Bus, Cosmos DB or this product is in it",
	},
	"emulator": {
		may:  []string{"emulator", "emulator layer"},
		rule: "the emulator is an independent witness: the standard library, its own packages and the libraries named for it",
	},
	"benchmark": {
		may:  []string{"emulator layer", "measure"},
		rule: "a benchmark is a client: it meets the emulator over the wire only, by an SDK or by the emulator's own codec",
	},
	"measure": {
		rule: "what both benchmarks share knows neither side: it looks at processes and makes a table",
	},
	"tests": {
		rule: "this package has only tests: nobody imports it, and what is no test in it imports nothing of ours",
	},
}

var (
	onlyCommands = []string{"flag", "os/signal"} // flags and signals are read in cmd alone
	impure       = []string{"flag", "log", "log/slog", "net", "net/http", "os", "os/exec", "os/signal"}
)

type row struct {
	pkg, ring string
	toCome    bool
}

// architecture has one row for each package of the tree. A package without a
// row fails; a row without a package fails too, unless its package is to come.
var architecture = []row{
	{pkg: "internal", ring: "tests"},
	{pkg: "docs", ring: "tests"},
	{pkg: "internal/message", ring: "leaf"},

	{pkg: "internal/claim", ring: "guard"},
	{pkg: "internal/execution", ring: "guard"},
	{pkg: "internal/receipt", ring: "guard"},

	{pkg: "internal/diagram", ring: "picture"},

	{pkg: "internal/page", ring: "page"},

	{pkg: "internal/worker", ring: "story"},
	{pkg: "internal/orchestrator", ring: "story"},
	{pkg: "internal/projector", ring: "story"},

	{pkg: "internal/servicebus", ring: "adapter"},
	{pkg: "internal/cosmos", ring: "adapter"},
	{pkg: "internal/downstream", ring: "adapter"},

	{pkg: "internal/telemetry", ring: "support"},
	{pkg: "internal/horizon", ring: "support"},
	{pkg: "internal/evidence", ring: "evidence"},
	{pkg: "internal/evidence/probe", ring: "evidence"},
	{pkg: "internal/preflight", ring: "evidence"},
	{pkg: "internal/sim", ring: "tests"},
	{pkg: "internal/model", ring: "tests"},
	{pkg: "internal/variants", ring: "tests"},

	{pkg: "cmd/internal/access", ring: "access"},
	{pkg: "cmd/internal/process", ring: "process"},
	{pkg: "cmd/worker", ring: "command"},
	{pkg: "cmd/orchestrator", ring: "command"},
	{pkg: "cmd/projector", ring: "command"},
	{pkg: "cmd/taskctl", ring: "command"},
	{pkg: "cmd/local", ring: "command"},
	{pkg: "cmd/otelcheck", ring: "command"},
	{pkg: "cmd/bench", ring: "worker's benchmark"},

	{pkg: "measure", ring: "measure"},
	{pkg: "infra/facts", ring: "facts"},

	{pkg: "emulator", ring: "emulator"},
	{pkg: "emulator/conformance", ring: "emulator"},
	{pkg: "emulator/bench", ring: "benchmark"},
	{pkg: "emulator/broken", ring: "emulator"},
	{pkg: "emulator/amqp", ring: "emulator layer"},
	{pkg: "emulator/authority", ring: "emulator layer"},
	{pkg: "emulator/control", ring: "emulator layer"},
	{pkg: "emulator/disk", ring: "emulator layer"},
	{pkg: "emulator/door", ring: "emulator layer"},
	{pkg: "emulator/identity", ring: "emulator layer"},
	{pkg: "emulator/inprocess", ring: "emulator layer"},
	{pkg: "emulator/late", ring: "emulator layer"},
	{pkg: "emulator/servicebus", ring: "emulator"},
	{pkg: "emulator/servicebus/atom", ring: "emulator layer"},
	{pkg: "emulator/servicebus/broker", ring: "emulator"},
	{pkg: "emulator/servicebus/journal", ring: "emulator"},
	{pkg: "emulator/servicebus/rule", ring: "emulator layer"},
	{pkg: "emulator/cosmos", ring: "emulator"},
	{pkg: "emulator/downstream", ring: "emulator"},
}

const azure = "github.com/Azure/azure-sdk-for-go/sdk/"

// libraries names every module that is imported, and who may: rings and
// packages. The longest path that fits decides. Test files may import all of
// them. docs/adr/0004-dependencies.md says why each is worth having.
var libraries = []struct {
	path string
	by   []string
	rule string
}{
	{azure + "messaging/azservicebus", []string{"internal/servicebus", "internal/preflight", "benchmark", "worker's benchmark"}, "internal/servicebus alone speaks to the broker, and what measures or probes it"},
	{"github.com/Azure/go-amqp", []string{"internal/servicebus"}, "internal/servicebus alone sees the broker's errors, and the emulator has a codec of its own"},
	{azure + "data/azcosmos", []string{"internal/cosmos", "internal/preflight", "internal/evidence/probe", "benchmark", "worker's benchmark"}, "internal/cosmos alone speaks to the store, what measures or probes it, and the broken variant among the probes, which does what internal/cosmos has no method for"},
	{azure + "azidentity", []string{"command", "process", "adapter"}, "credentials are made in commands and adapters"},
	{azure + "azcore", []string{"command", "process", "adapter", "internal/preflight", "internal/evidence/probe", "benchmark", "worker's benchmark"}, "SDK types end in commands and adapters"},
	{azure + "azcore/tracing", []string{"command", "process", "adapter", "internal/telemetry"}, "the tracing bridge is telemetry's"},

	{"go.opentelemetry.io/otel", []string{"command", "process", "story", "adapter", "internal/telemetry", "worker's benchmark"}, "guards and messages are not traced, those who use them are"},
	{"go.opentelemetry.io/otel/sdk", []string{"internal/telemetry"}, "internal/telemetry alone sets telemetry up"},
	{"go.opentelemetry.io/contrib/exporters/autoexport", []string{"internal/telemetry"}, "internal/telemetry alone sets telemetry up"},
	{"go.opentelemetry.io/contrib/bridges/otelslog", []string{"internal/telemetry"}, "internal/telemetry alone sets telemetry up"},
	{"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", []string{"command", "process", "story", "internal/downstream"}, "HTTP is spoken by commands, the story and internal/downstream"},
	{"github.com/santhosh-tekuri/jsonschema/v6", []string{"internal/evidence"}, "only evidence holds what it reads to a schema, and tests hold answers to theirs"},
	{"github.com/cloudevents/sdk-go/v2", nil, "the envelope is our own, and the SDK an oracle for its tests"},
	{"go.opentelemetry.io/proto/otlp", nil, "only tests read what was exported"},
	{"google.golang.org/grpc", nil, "only tests receive what was exported"},
	{"google.golang.org/protobuf", nil, "only tests read what was exported"},

	{"github.com/go-json-experiment/json", []string{"leaf", "guard", "story", "page", "adapter", "evidence", "command", "worker's benchmark", "emulator", "emulator/control"}, "JSON is no business of this package"},
	{"go.yaml.in/yaml/v4", []string{"command", "internal/downstream"}, "handlers are declared in YAML and nothing else is"},
	{"golang.org/x/net/http/httpguts", []string{"internal/downstream"}, "internal/downstream alone writes headers that an operator declared"},
	{"github.com/coreos/go-oidc/v3", []string{"cmd/internal/access"}, "who asks is found out in one place"},
	{"github.com/go-jose/go-jose/v4", []string{"cmd/internal/access"}, "who asks is found out in one place"},
	{"golang.org/x/oauth2", []string{"cmd/internal/access"}, "who asks is found out in one place"},
	{"github.com/spf13/cobra", []string{"cmd/taskctl"}, "the operator's command line alone has commands within commands"},
	{"github.com/tmaxmax/go-sse", []string{"cmd/taskctl"}, "the operator's command line alone listens to what browsers are told"},
	{"golang.org/x/sys/unix", []string{"cmd/taskctl"}, "the operator's command line alone asks how wide a terminal is"},
	{"golang.org/x/sync/errgroup", []string{"command"}, "commands run several things side by side until the first ends"},
	{"github.com/coder/websocket", []string{"emulator/door"}, "AMQP over WebSocket enters by emulator/door alone"},
	{"github.com/tidwall/jsonc", []string{"emulator", "internal/servicebus"}, "comments in JSON stand only in the emulator's configuration, which internal/servicebus reads for taskctl doctor"},
	{"github.com/sosodev/duration", []string{"emulator", "internal/servicebus"}, "ISO 8601 durations stand only in the emulator's configuration and in what the management of the broker says"},
}

func TestEveryPackageImportsOnlyWhatItsRingMay(t *testing.T) {
	files, err := scan(os.DirFS(".."))
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	for _, violation := range check(files) {
		t.Error(violation)
	}
	for _, violation := range checkRows(files, architecture) {
		t.Error(violation)
	}
}
