package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
)

// What one page of executions is bounded by.
const (
	listPage    = 50
	maxListPage = 200
	maxFilters  = 20
	maxText     = 100
	maxAfter    = 8 << 10
	emptyPages  = 8 // of older executions: the store may find nothing on a page and go on
)

// The orders of a page.
const (
	newestFirst = "newest first"
	noOrder     = "none"
)

// listed is what GET /v1/executions answers.
type listed struct {
	Executions []execution.Summary `json:"executions"`
	Order      string              `json:"order"`
	AsOf       time.Time           `json:"asOf,omitzero"` // when the index was as new as the store
	Next       string              `json:"next,omitzero"`
}

// continuation is what the parameter after holds: a place in the index, or beyond it
// a place in a query of the store.
type continuation struct {
	Older position  `json:"o,omitzero"`
	Below time.Time `json:"b,omitzero"`
	Query string    `json:"q,omitzero"`
	Asked string    `json:"f"` // digest of the filters that it goes on with
}

func (o *Orchestrator) list(w http.ResponseWriter, r *http.Request) {
	known, err := tagsOf(r, "If-None-Match")
	filter, err2 := filterOf(r)
	limit, err3 := number(r, "limit", 1, maxListPage, listPage)
	text, err4 := textOf(r)
	after, err5 := continuationOf(r, filter, text)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		o.fail(w, r, err)
		return
	}
	var page listed
	if after.Below.IsZero() {
		page, err = o.newest(filter, text, after.Older, int(limit))
	} else {
		page, err = o.older(r.Context(), filter, after, int(limit))
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	etag, err := page.etag()
	if err != nil {
		o.fail(w, r, err)
		return
	}
	w.Header().Set("ETag", etag)
	if page.Next != "" {
		page.Next = nextPage(filter, text, limit, page.Next)
		w.Header().Set("Link", "<"+page.Next+`>; rel="next"`)
	}
	if known.weak(etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	o.writeJSON(w, r, http.StatusOK, page)
}

// newest reads the index, which is in this process's memory. What is older than its
// floor is the store's to find, but by a text: that is looked for here alone.
func (o *Orchestrator) newest(f execution.Filter, text string, older position, limit int) (listed, error) {
	page, floor, asOf, ok := o.index.page(f, text, older, limit)
	if !ok {
		return listed{}, fmt.Errorf("list executions: %w: the index is being read", message.ErrTransient)
	}
	next := continuation{Below: floor, Asked: digestOf(f, text)}
	if len(page) == limit {
		last := page[limit-1]
		next = continuation{Older: position{last.CreatedAt, last.ExecutionID}, Asked: next.Asked}
	} else if !older.CreatedAt.IsZero() && older.CreatedAt.Before(floor) {
		next.Below = nextSecond(older.CreatedAt) // the floor has risen past where this list stood
	}
	answer := listed{Executions: page, Order: newestFirst, AsOf: asOf}
	if text == "" || len(page) == limit {
		answer.Next = next.String()
	}
	return answer, nil
}

// older asks the store, page by page, until there is something to show.
func (o *Orchestrator) older(ctx context.Context, f execution.Filter, c continuation, limit int) (listed, error) {
	var page []execution.Summary
	for range emptyPages {
		var err error
		given := c.Query
		page, c.Query, err = o.Views.Older(ctx, c.Below, f, given, limit)
		if errors.Is(err, message.ErrRefused) && given != "" {
			return listed{}, problem{InvalidRequest, "the list does not go on from there any more: begin anew, without after"}
		}
		if err != nil {
			return listed{}, err
		}
		if len(page) > 0 || c.Query == "" {
			break
		}
	}
	answer := listed{Executions: page, Order: noOrder}
	if c.Query != "" {
		answer.Next = c.String()
	}
	return answer, nil
}

// etag is of what the page says, and not of when.
func (l listed) etag() (string, error) {
	l.AsOf = time.Time{}
	text, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("%w: write JSON: %w", message.ErrRefused, err)
	}
	digest := sha256.Sum256(text)
	return `W/"` + hex.EncodeToString(digest[:12]) + `"`, nil
}

func nextPage(f execution.Filter, text string, limit int64, after string) string {
	query := url.Values{"limit": {strconv.FormatInt(limit, 10)}, "after": {after}}
	if text != "" {
		query.Set("q", text)
	}
	for _, s := range f.Statuses {
		query.Add("status", string(s))
	}
	for _, t := range f.Types {
		query.Add("type", t)
	}
	return "/v1/executions?" + query.Encode()
}

func filterOf(r *http.Request) (execution.Filter, error) {
	query := r.URL.Query()
	var f execution.Filter
	if len(query["status"]) > maxFilters || len(query["type"]) > maxFilters {
		return f, problem{InvalidRequest, fmt.Sprintf("there are more than %d of status or type", maxFilters)}
	}
	for _, s := range query["status"] {
		status := execution.Status(s)
		if !slices.Contains(execution.Statuses(), status) {
			return f, problem{InvalidRequest, fmt.Sprintf("no execution has the status %+q: give RUNNING, COMPLETED, FAILED or CANCELLED", s)}
		}
		f.Statuses = append(f.Statuses, status)
	}
	for _, t := range query["type"] {
		if err := message.CheckType(t); err != nil {
			return f, problem{InvalidRequest, err.Error()}
		}
		f.Types = append(f.Types, t)
	}
	return f, nil
}

// textOf is what is looked for.
func textOf(r *http.Request) (string, error) {
	values := r.URL.Query()["q"]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || len(values[0]) > maxText || !utf8.ValidString(values[0]) {
		return "", problem{InvalidRequest, fmt.Sprintf("q is no one text of at most %d bytes", maxText)}
	}
	return values[0], nil
}

// digestOf is of a filter, in whatever order it was written.
func digestOf(f execution.Filter, text string) string {
	statuses, types := slices.Sorted(slices.Values(f.Statuses)), slices.Sorted(slices.Values(f.Types))
	digest := sha256.Sum256(fmt.Appendf(nil, "%q%q%q", slices.Compact(statuses), slices.Compact(types), text))
	return base64.RawURLEncoding.EncodeToString(digest[:6])
}

func (c continuation) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // there is nothing in it that JSON does not have
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func continuationOf(r *http.Request, f execution.Filter, text string) (continuation, error) {
	values := r.URL.Query()["after"]
	if len(values) == 0 {
		return continuation{}, nil
	}
	var c continuation
	plain, err := base64.RawURLEncoding.DecodeString(values[0])
	if err == nil {
		err = json.Unmarshal(plain, &c, json.RejectUnknownMembers(true))
	}
	if err != nil || len(values) > 1 || len(values[0]) > maxAfter || c.Older.CreatedAt.IsZero() == c.Below.IsZero() || c.Below.IsZero() && c.Query != "" {
		return c, problem{InvalidRequest, "after is not what an earlier page gave as its next: follow that link as it is"}
	}
	if c.Asked != digestOf(f, text) {
		return c, problem{InvalidRequest, "after belongs to a list with other filters: follow the link of a page as it is"}
	}
	return c, nil
}
