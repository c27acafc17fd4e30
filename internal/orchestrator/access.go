package orchestrator

import "net/http"

// Needs is the role that a request takes; none ("") for what stands open to
// everybody. It goes by method and path and not by a list of routes, so that a route
// that is new, or mistyped, is never open by oversight: to look takes Read, to
// create an execution Submit, and whatever else changes something Operate.
func Needs(r *http.Request) Role {
	look := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case look && (r.URL.Path == "/livez" || r.URL.Path == "/readyz"):
		return "" // those who ask it restart or leave out this process, and have no token
	case look:
		return Read
	case r.Method == http.MethodPost && r.URL.Path == "/v1/executions":
		return Submit
	}
	return Operate
}
