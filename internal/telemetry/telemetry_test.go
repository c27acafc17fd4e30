package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel"
	nolog "go.opentelemetry.io/otel/log/noop"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// environment sets the process's variables for one test and answers for them,
// as a command's os.Getenv would. Variables of the machine that could reach the
// exporters are emptied first.
func environment(t *testing.T, set map[string]string) func(string) string {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range set {
		t.Setenv(name, value)
	}
	return os.Getenv
}

// off says whether traces are: their provider is the no-op then.
func off(p Providers) bool {
	made, ok := p.Traces.(sparing)
	_, silent := made.TracerProvider.(notrace.TracerProvider)
	return ok && made.off && silent
}

// A bubble ends only when every goroutine started in it has ended, so these
// starts without a Shutdown prove that nothing was started.
func TestNothingIsMadeUnlessASignalIsConfigured(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"nothing is set": {},
		"only who and how is set": {
			"OTEL_SERVICE_NAME": "worker", "OTEL_RESOURCE_ATTRIBUTES": "malformed",
			"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "always_on",
		},
		"every exporter is none, in spite of an endpoint": {
			"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
		},
		"the SDK is disabled, in spite of everything": {
			"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp",
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
		},
	} {
		t.Run(name, func(t *testing.T) {
			getenv := environment(t, set)
			synctest.Test(t, func(t *testing.T) {
				p, err := Start(t.Context(), Options{Service: "worker", Getenv: getenv})
				if err != nil {
					t.Fatalf("start: %v", err)
				}
				if !off(p) {
					t.Errorf("traces come from a %T, want the no-op", p.Traces)
				}
				if _, ok := p.Metrics.(nometric.MeterProvider); !ok {
					t.Errorf("metrics come from a %T, want the no-op", p.Metrics)
				}
				if _, ok := p.Logs.(nolog.LoggerProvider); !ok {
					t.Errorf("logs come from a %T, want the no-op", p.Logs)
				}
				if !p.Unwatched() {
					t.Error("somebody watches")
				}
			})
		})
	}
}

func TestGetenvOfATestKeepsTelemetryOffWhateverTheMachineHasSet(t *testing.T) {
	environment(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp"})
	synctest.Test(t, func(t *testing.T) {
		p, err := Start(t.Context(), Options{Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatalf("start: %v", err)
		}
		if !off(p) {
			t.Errorf("traces come from a %T, want the no-op", p.Traces)
		}
	})
}

// A message's trace context must survive a process that itself reports nothing.
func TestAnIncomingTraceTravelsOnWhileTelemetryIsOff(t *testing.T) {
	p, err := Start(t.Context(), Options{Getenv: environment(t, nil)})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	in := propagation.MapCarrier{"traceparent": parent, "tracestate": "vendor=1"}
	ctx := p.Propagator.Extract(t.Context(), in)
	ctx, span := p.Traces.Tracer("test").Start(ctx, "process tasks")
	defer span.End()

	out := propagation.MapCarrier{}
	p.Propagator.Inject(ctx, out)
	if out["traceparent"] != parent || out["tracestate"] != "vendor=1" {
		t.Errorf("sent on %v, want the trace that came in", out)
	}
}

func TestASettingThatCannotBeFollowedIsRefusedByName(t *testing.T) {
	for name, tc := range map[string]struct {
		set  map[string]string
		want []string
	}{
		"an unknown exporter": {
			map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"},
			[]string{"OTEL_TRACES_EXPORTER=zipkin", "otlp, console and none"},
		},
		"an unknown protocol": {
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			[]string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_LOGS_EXPORTER=otlp", "grpc and http/protobuf"},
		},
		"an endpoint without a scheme": {
			map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "collector:4317"},
			[]string{`OTEL_EXPORTER_OTLP_LOGS_ENDPOINT="collector:4317"`, "http://collector:4318"},
		},
		"an endpoint without a scheme, beside an explicit otlp": {
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4317"},
			[]string{`OTEL_EXPORTER_OTLP_ENDPOINT="127.0.0.1:4317"`},
		},
		"malformed attributes": {
			map[string]string{"OTEL_TRACES_EXPORTER": "console", "OTEL_RESOURCE_ATTRIBUTES": "environment"},
			[]string{"OTEL_RESOURCE_ATTRIBUTES", "key=value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), Options{Getenv: environment(t, tc.set)})
			if err == nil {
				t.Fatal("started, want an error")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %s:\n%v", part, err)
				}
			}
		})
	}
}

// The console exporter holds the stdout that the process was born with, so the
// span is printed by a child: this test binary, told to be a program.
const beAProgram = "TELEMETRY_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(beAProgram) == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	p, err := Start(ctx, Options{Service: "worker", Getenv: os.Getenv})
	if err == nil {
		_, span := p.Traces.Tracer("test").Start(ctx, "complete tasks")
		span.End()
		err = p.Shutdown(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestTheConsoleExporterPrintsASpan(t *testing.T) {
	environment(t, map[string]string{"OTEL_TRACES_EXPORTER": "console", beAProgram: "yes"})
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Stderr = t.Output()
	printed, err := program.Output()
	if err != nil {
		t.Fatalf("run the program: %v", err)
	}
	if lines := strings.Count(string(printed), "\n"); lines != 1 || !strings.Contains(string(printed), `"Name":"complete tasks"`) {
		t.Errorf("printed %q, want the span alone", printed)
	}
}

func TestNothingIsRegisteredGlobally(t *testing.T) {
	traces, metrics, logs, propagator := otel.GetTracerProvider(), otel.GetMeterProvider(), otel.GetLoggerProvider(), otel.GetTextMapPropagator()
	server := httptest.NewServer(newCollector())
	defer server.Close()
	p, err := Start(t.Context(), Options{Getenv: environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Errorf("shut down: %v", err)
	}
	if otel.GetTracerProvider() != traces || otel.GetMeterProvider() != metrics || otel.GetLoggerProvider() != logs || otel.GetTextMapPropagator() != propagator {
		t.Error("a provider was registered with the otel package")
	}
}
