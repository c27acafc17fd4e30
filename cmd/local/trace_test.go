package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracespb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is the receiving end of OTLP over HTTP.
type receiver struct {
	mu     sync.Mutex
	spans  map[string][]*tracespb.Span // by the process that sent them
	bodies [][]byte                    // of every signal
	err    error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var traces collectortraces.ExportTraceServiceRequest
	if err == nil && req.URL.Path == "/v1/traces" {
		err = proto.Unmarshal(body, &traces)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = err
	}
	r.bodies = append(r.bodies, body)
	for _, resource := range traces.GetResourceSpans() {
		instance := ""
		for _, kv := range resource.GetResource().GetAttributes() {
			if kv.GetKey() == "service.instance.id" {
				instance = kv.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			r.spans[instance] = append(r.spans[instance], scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// watchDemo receives what the demo's processes tell; env has them tell it.
func watchDemo(t *testing.T) (r *receiver, env []string) {
	t.Helper()
	r = &receiver{spans: map[string][]*tracespb.Span{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=20"}
}

// wantOneTrace holds what arrived to the diagram: one trace over the processes, of
// which each span's parent is known, and nothing of payload or keys in any signal.
func (r *receiver) wantOneTrace(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Fatal(r.err)
	}
	traces := map[string]map[string]int{} // trace → process and name → spans
	links := map[string][]string{}        // process and name → traces that are linked to
	begun := ""                           // the trace of the request
	known := map[string]bool{}
	for process, spans := range r.spans {
		for _, s := range spans {
			trace, what := hex.EncodeToString(s.GetTraceId()), process+": "+s.GetName()
			if traces[trace] == nil {
				traces[trace] = map[string]int{}
			}
			traces[trace][what]++
			known[string(s.GetSpanId())] = true
			for _, l := range s.GetLinks() {
				links[what] = append(links[what], hex.EncodeToString(l.GetTraceId()))
			}
			if s.GetName() == "process tasks" && process == worker2 && begun == "" {
				begun = trace // the first that worker 2 has done is the one of worker 1
			}
		}
	}
	for what, least := range map[string]int{
		"orchestrator: POST /v1/executions": 1, "orchestrator: execute_batch executions": 1, "orchestrator: send tasks": 1, "orchestrator: delete_item executions": 1,
		"worker-2: process tasks": 1, "worker-2: read_item claims": 1, "worker-2: replace_item claims": 2, "worker-2: POST": 1,
		"worker-2: send task-events": 1, "worker-2: complete tasks": 1,
		"orchestrator: process task-events": 1, "orchestrator: patch_item executions": 1, "orchestrator: complete task-events": 1,
	} {
		if traces[begun][what] < least {
			t.Errorf("%s: %d spans in the trace of the request, want %d; it has %v", what, traces[begun][what], least, traces[begun])
		}
	}
	suppressed := 0
	for _, linked := range links["orchestrator: process task-events"] {
		if linked == begun {
			suppressed++
		}
	}
	if suppressed < 2 { // its own message's, and the second completion's from another trace
		t.Errorf("%d deliveries of completions link to the trace of the request, want 2", suppressed)
	}
	for process, spans := range r.spans {
		for _, s := range spans {
			if p := s.GetParentSpanId(); process != worker1 && len(p) > 0 && !known[string(p)] {
				t.Errorf("the parent of %s's %s was never told", process, s.GetName())
			}
		}
	}
	for _, secret := range []string{"Ada Lovelace", "SAS_KEY_VALUE", cosmosKey} {
		for _, body := range r.bodies {
			if bytes.Contains(body, []byte(secret)) {
				t.Errorf("%s is in what was told", secret)
			}
		}
	}
}
