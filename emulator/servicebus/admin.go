package servicebus

import (
	"encoding/xml"
	"net/http"
)

// Admin answers the namespace's management API: ATOM entries and feeds over HTTP, as the service does at
// https://<namespace>/. It looks at the path alone, so it may be mounted beside other handlers, with and without TLS.
func (s *Server) Admin() http.Handler { return http.HandlerFunc(s.admin) }

func (s *Server) admin(w http.ResponseWriter, r *http.Request) {
	adminError(w, http.StatusNotImplemented, r.Method+" "+r.URL.Path+" is not supported by this emulator yet")
}

// adminError answers with the service's error document.
func adminError(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    int
		Detail  string
	}{Code: status, Detail: detail}) // a peer that has gone needs no answer
}
