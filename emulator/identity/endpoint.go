package identity

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// apiVersion is the one version of the endpoint that clients use today.
const apiVersion = "2019-08-01"

// ServeHTTP is the managed-identity endpoint of Azure App Service. Clients find it
// by the environment variables IDENTITY_ENDPOINT=http://ADDRESS/msi and
// IDENTITY_HEADER, whose value they send along; any will do here.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	resource := query.Get("resource")
	switch {
	case !strings.EqualFold(strings.TrimSuffix(r.URL.Path, "/"), "/msi"):
		refuse(w, http.StatusNotFound, "the endpoint of the managed identity is /msi")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "ask for a token with GET")
	case r.Header.Get("X-IDENTITY-HEADER") == "":
		refuse(w, http.StatusUnauthorized, "the header X-IDENTITY-HEADER is missing; set IDENTITY_HEADER to any value")
	case query.Get("api-version") != apiVersion:
		refuse(w, http.StatusBadRequest, "only api-version="+apiVersion+" is supported by this emulator")
	case resource == "":
		refuse(w, http.StatusBadRequest, "the parameter resource is missing: say what the token is for")
	default:
		token, expires := i.Token(resource)
		answer(w, http.StatusOK, map[string]string{
			"access_token": token,
			"expires_on":   strconv.FormatInt(expires.Unix(), 10),
			"resource":     resource,
			"token_type":   "Bearer",
			"client_id":    cmp.Or(query.Get("client_id"), principal),
		})
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]any{"statusCode": status, "message": why})
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client has gone, or has it
}
