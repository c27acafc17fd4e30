package orchestrator_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"oneeffect/internal/orchestrator"
)

func TestWhatARequestTakesGoesByWhatItMayChange(t *testing.T) {
	for request, want := range map[[2]string]orchestrator.Role{
		{http.MethodGet, "/livez"}:                       "",
		{http.MethodHead, "/readyz"}:                     "",
		{http.MethodPost, "/livez"}:                      orchestrator.Operate,
		{http.MethodGet, "/livez/"}:                      orchestrator.Read,
		{http.MethodGet, "//livez"}:                      orchestrator.Read,
		{http.MethodGet, "/v1/../livez"}:                 orchestrator.Read,
		{http.MethodGet, "/"}:                            orchestrator.Read,
		{http.MethodGet, "/openapi.json"}:                orchestrator.Read,
		{http.MethodGet, "/v1/executions"}:               orchestrator.Read,
		{http.MethodGet, "/v1/executions/82f3/timeline"}: orchestrator.Read,
		{http.MethodGet, "/v1/dead-letters"}:             orchestrator.Read,
		{http.MethodPost, "/v1/executions"}:              orchestrator.Submit,
		{http.MethodPost, "/v1%2Fexecutions/"}:           orchestrator.Operate,
		{http.MethodPost, "/v1/executions/82f3/cancel"}:  orchestrator.Operate,
		{http.MethodPost, "/v1/executions/82f3/replay"}:  orchestrator.Operate,
		{http.MethodPost, "/v1/executions/82f3/resolve"}: orchestrator.Operate,
		{http.MethodDelete, "/v1/executions"}:            orchestrator.Operate,
		{http.MethodOptions, "/v1/executions"}:           orchestrator.Operate,
		{"FETCH", "/"}:                                   orchestrator.Operate,
	} {
		if got := orchestrator.Needs(httptest.NewRequest(request[0], request[1], nil)); got != want {
			t.Errorf("%s %s takes %q, want %q", request[0], request[1], got, want)
		}
	}
}
