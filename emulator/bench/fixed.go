package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"oneeffect/measure"
)

// fixedCommand is the argument that makes this program the server with fixed answers.
const fixedCommand = "answer-fixed"

// startFixed starts the server with fixed answers as a process of its own, as the emulator is one.
func startFixed(ctx context.Context) (*measure.Server, error) {
	return measure.LaunchSelf(ctx, fixedCommand)
}

// answerFixed serves answers of the size and with the headers of an account's, which it does not make but has, until
// the context ends.
func answerFixed(ctx context.Context, stdout io.Writer) error {
	return measure.Serve(ctx, "cosmos", newFixed(), stdout)
}

// fixed is a handler that has its answers.
type fixed struct{ item, page, batch []byte }

func newFixed() fixed {
	item := (&documents{together: inPartition, padding: strings.Repeat("x", itemSize-450)}).item(0, "claim")
	item = append(item[:len(item)-1], `,"_rid":"AQAAEIEAAIABAAAAAAAAAA==","_self":"dbs/AQAAEA==/colls/AQAAEIEAAIA=/docs/AQAAEIEAAIABAAAAAAAAAA==/",`+
		`"_etag":"\"00000001-0000-0000-0000-000000000000\"","_attachments":"attachments/","_ts":1900000000}`...)
	page := bytes.Repeat(append(item, ','), inPartition)
	return fixed{
		item:  item,
		page:  fmt.Appendf(nil, `{"_rid":"AQAAEIEAAIA=","Documents":[%s],"_count":%d}`, page[:len(page)-1], inPartition),
		batch: fmt.Appendf(nil, `[%[1]s,%[1]s]`, `{"statusCode":201,"requestCharge":5.36,"eTag":"\"00000001-0000-0000-0000-000000000000\""}`),
	}
}

func (f fixed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what cannot be read ends the connection by itself
	status, body := http.StatusOK, f.item
	switch {
	case r.URL.Path == "/":
		body = fmt.Appendf(nil, `{"writableLocations":[{"name":"Here","databaseAccountEndpoint":"http://%[1]s/"}],"readableLocations":[{"name":"Here","databaseAccountEndpoint":"http://%[1]s/"}]}`, r.Host)
	case r.Header.Get("x-ms-cosmos-is-batch-request") != "":
		body = f.batch
	case r.Header.Get("x-ms-documentdb-query") != "":
		body = f.page
	case r.Method == http.MethodPost:
		status, body = http.StatusCreated, nil
	case r.Method == http.MethodPut:
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("etag", `"00000001-0000-0000-0000-000000000000"`)
	h.Set("x-ms-request-charge", "5.36")
	h.Set("x-ms-session-token", "0:-1#1")
	h.Set("x-ms-activity-id", r.Header.Get("x-ms-activity-id"))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone has nobody to tell
}
