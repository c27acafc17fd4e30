package orchestrator

import (
	_ "embed"
	"net/http"
)

// description is the API as an OpenAPI 3.1 document. It is written by hand, and every
// request and answer of the tests is held to it.
//
//go:embed openapi.json
var description []byte

func (o *Orchestrator) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description)
}
