package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// problem is a problem document of the API.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// answer takes down what the API answers.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(text []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(text)
}

// ask asks the API in the name of whoever looks (P2). Its refusal is a *problem.
func (p *Page) ask(r *http.Request, method, path string, header http.Header, body, into any) (etag string, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return "", fmt.Errorf("ask %s: %w", path, err)
		}
	}
	q, err := http.NewRequestWithContext(r.Context(), method, path, bytes.NewReader(text))
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", path, err)
	}
	q.Host, q.RemoteAddr = r.Host, r.RemoteAddr
	for name, values := range header {
		q.Header[name] = values
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	a := &answer{header: http.Header{}}
	p.o.API.ServeHTTP(a, q)
	if a.status >= http.StatusBadRequest {
		refused := &problem{}
		if err := json.Unmarshal(a.body.Bytes(), refused); err != nil {
			return "", fmt.Errorf("ask %s: status %d, and no problem document: %w", path, a.status, err)
		}
		return "", refused
	}
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return "", fmt.Errorf("ask %s: read the answer: %w", path, err)
	}
	return a.header.Get("ETag"), nil
}

// of is the API's path of an execution.
func of(id, what string) string { return "/v1/executions/" + url.PathEscape(id) + what }

// gone reports whether the API knows of no such thing.
func gone(err error) bool {
	refused, ok := errors.AsType[*problem](err)
	return ok && refused.Status == http.StatusNotFound
}
