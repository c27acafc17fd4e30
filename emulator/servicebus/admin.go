package servicebus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
)

const (
	// maxAdminBody bounds a description; the largest the service's limits allow is far smaller.
	maxAdminBody = 1 << 20
	// defaultPage is how many entities a list shows at once if the client does not say, and maxPage the most it may ask
	// for.
	defaultPage = 100
	maxPage     = 1000
)

// apiVersions are the management API's: those before 2021-05 do not know the size of a message, those before 2024-05
// do not count filters.
var apiVersions = regexp.MustCompile(`^20(1[3-9]|2[0-4])-(0[1-9]|1[0-2])$`)

const (
	apiWithMessageSize  = "2021-05"
	apiWithFilterCounts = "2024-05"
)

// Admin answers the namespace's management API: ATOM entries and feeds over HTTP, as the service does at
// https://<namespace>/. It looks at the path alone, so it may be mounted beside other handlers, with and without TLS.
func (s *Server) Admin() http.Handler { return http.HandlerFunc(s.admin) }

// resource is what a path names: exactly one of the forms that route knows.
type resource struct {
	list         string // "queues" or "topics"
	info         bool   // the namespace itself
	entity       string // a queue or a topic
	nested       bool   // a subscription of the entity, or all of them
	subscription string
	rules        bool // a rule of the subscription, or all of them
	rule         string
}

// route takes a path apart. Names of queues and topics may have slashes in them.
func route(path string) (resource, bool) {
	path = strings.Trim(path, "/")
	switch strings.ToLower(path) {
	case "$namespaceinfo":
		return resource{info: true}, true
	case "$resources/queues":
		return resource{list: "queues"}, true
	case "$resources/topics":
		return resource{list: "topics"}, true
	}
	segments := strings.Split(path, "/")
	at := len(segments)
	for i, s := range segments {
		if i > 0 && strings.EqualFold(s, "Subscriptions") {
			at = i
			break
		}
	}
	r := resource{entity: strings.Join(segments[:at], "/")}
	rest := segments[at:]
	if r.entity == "" || strings.HasPrefix(r.entity, "$") || len(rest) > 4 {
		return resource{}, false
	}
	r.nested = len(rest) > 0
	if len(rest) > 1 {
		r.subscription = rest[1]
	}
	if len(rest) > 2 {
		if !strings.EqualFold(rest[2], "Rules") || r.subscription == "" {
			return resource{}, false
		}
		r.rules = true
	}
	if len(rest) > 3 {
		r.rule = rest[3]
	}
	return r, true
}

// adminRequest is a request on its way.
type adminRequest struct {
	*http.Request
	server  *Server
	to      resource
	version string
	update  bool // If-Match says that the entity must exist

	mayManage bool
	body      []byte
	op        control.Op
}

// refusedRequest is an error with the status it is answered with.
type refusedRequest struct {
	status int
	detail string
}

func (e *refusedRequest) Error() string { return e.detail }

func refuse(status int, format string, args ...any) error {
	return &refusedRequest{status, fmt.Sprintf(format, args...)}
}

// answer is a document and the status it goes with.
type answer struct {
	status     int
	document   interface{ Encode() ([]byte, error) }
	retryAfter time.Duration // 0: nothing is said of that
}

func (s *Server) admin(w http.ResponseWriter, r *http.Request) {
	a, what := s.adminRuled(w, r)
	switch what {
	case control.Proceed, control.Answer:
		s.adminAnswer(w, a)
		return
	case control.Silence:
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler) // there is no link to detach either
}

// adminRuled does what a request asks for, if rules let it, and says how it is answered: with the answer, or with none.
func (s *Server) adminRuled(w http.ResponseWriter, r *http.Request) (answer, control.Kind) {
	if s.hub.Isolated(clientName(r.UserAgent())) {
		// net/http notices that a client has gone only after its body has been read.
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxAdminBody))
		return answer{}, control.Silence
	}
	if err := s.enter(); err != nil {
		return answer{status: http.StatusServiceUnavailable, document: atom.Error{Code: http.StatusServiceUnavailable, Detail: err.Error()}}, control.Answer
	}
	defer s.work.Done()
	q, err := s.adminRead(w, r)
	if err != nil {
		return failed(err), control.Proceed
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	if d := s.hub.Before(ctx, q.op); d.Kind != control.Proceed {
		return orderedAnswer(d), d.Kind
	}
	a, err := q.apply()
	if err != nil {
		a = failed(err)
	}
	if !s.awaitKept() {
		return answer{}, control.Drop
	}
	if d := s.hub.After(ctx, q.op); d.Kind != control.Proceed {
		return orderedAnswer(d), d.Kind
	}
	return a, control.Proceed
}

func failed(err error) answer {
	status := adminStatus(err)
	return answer{status: status, document: atom.Error{Code: status, Detail: err.Error()}}
}

// orderedAnswer is what a rule has ordered.
func orderedAnswer(d control.Decision) answer {
	status := d.Status
	if status == 0 {
		status = int(statusOf(amqp.Symbol(d.Condition)))
	}
	return answer{status, atom.Error{Code: status, Detail: ordered(d).Description}, d.RetryAfter}
}

// adminRead takes a request in and says what it is, for rules and for whoever applies it.
func (s *Server) adminRead(w http.ResponseWriter, r *http.Request) (*adminRequest, error) {
	to, ok := route(r.URL.Path)
	if !ok {
		return nil, refuse(http.StatusNotFound, "SubCode=40400. Not Found. %s names nothing of this API.", r.URL.Path)
	}
	q := &adminRequest{Request: r, server: s, to: to, version: r.URL.Query().Get("api-version"), update: r.Header.Get("If-Match") != ""}
	if q.version != "" && (!apiVersions.MatchString(q.version) || q.version > apiWithFilterCounts) {
		return nil, refuse(http.StatusBadRequest, "SubCode=40000. The api-version %q is not supported by this emulator, which knows those up to %s.", q.version, apiWithFilterCounts)
	}
	var err error
	if q.mayManage, err = q.authorize(); err != nil {
		return nil, err
	}
	// At once: a rule may hold the request for longer than its client is there.
	if q.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody)); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	q.op = control.Op{Service: service, Operation: q.operation(), Entity: entityText(r.URL.Path), Client: clientName(r.UserAgent())}
	return q, nil
}

// operation is what rules call the request. One whose method fits nothing reads nothing either, and is refused.
func (q *adminRequest) operation() string {
	switch q.Method {
	case http.MethodPut:
		if q.update {
			return "admin-update"
		}
		return "admin-create"
	case http.MethodDelete:
		return "admin-delete"
	}
	if q.to.list != "" || q.to.rules && q.to.rule == "" || q.to.nested && !q.to.rules && q.to.subscription == "" {
		return "admin-list"
	}
	return "admin-read"
}

// apply does what a client that may manage asks for. A change is answered when it has ended the links that it ends (D4).
func (q *adminRequest) apply() (answer, error) {
	if !q.mayManage {
		return q.unauthorized()
	}
	a, err := q.onResource()
	if q.Method == http.MethodPut || q.Method == http.MethodDelete {
		q.server.audience.settle(q.Context())
	}
	return a, err
}

func (q *adminRequest) onResource() (answer, error) {
	switch {
	case q.to.info:
		return q.namespaceInfo()
	case q.to.list != "":
		return q.listEntities()
	case q.to.rules:
		return q.onRule()
	case q.to.nested:
		return q.onSubscription()
	}
	return q.onEntity()
}

// adminAnswer writes a document. A client that has gone needs none.
func (s *Server) adminAnswer(w http.ResponseWriter, a answer) {
	if a.document == nil {
		w.WriteHeader(a.status)
		return
	}
	encoded, err := a.document.Encode()
	if err != nil {
		s.log.Error("management answer not encoded", slog.Any("err", err))
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	contentType := "application/atom+xml;type=entry;charset=utf-8"
	switch a.document.(type) {
	case atom.Feed:
		contentType = "application/atom+xml;type=feed;charset=utf-8"
	case atom.Error:
		contentType = "application/xml; charset=utf-8"
	}
	w.Header().Set("Content-Type", contentType)
	if a.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
	}
	w.WriteHeader(a.status)
	if _, err := w.Write(encoded); err != nil {
		s.log.Debug("management answer not sent", slog.Any("err", err))
	}
}

// adminStatus is the status of an error of ours or of the engine's.
func adminStatus(err error) int {
	if e, ok := errors.AsType[*refusedRequest](err); ok {
		return e.status
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, broker.ErrExists):
		return http.StatusConflict
	case errors.Is(err, broker.ErrInvalid), errors.Is(err, atom.ErrDocument):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// adminError puts an error of the engine into the words of the API.
func adminError(err error) error {
	switch status := adminStatus(err); status {
	case http.StatusNotFound:
		return refuse(status, "SubCode=40400. Not Found. The operation cannot be completed: %v.", err)
	case http.StatusConflict:
		return refuse(status, "SubCode=40900. Conflict. You're requesting an operation that isn't allowed in the resource's current state: %v.", err)
	case http.StatusBadRequest:
		return refuse(status, "SubCode=40000. Bad Request. %v.", err)
	}
	return err
}

// read decodes the description that came with a request.
func (q *adminRequest) read(into atom.Description) error {
	if err := atom.Decode(q.body, into); err != nil {
		return adminError(err)
	}
	return nil
}

// examined turns what an examination found into an answer.
func (x *examination) examined() error {
	if len(x.mistakes) == 0 {
		return nil
	}
	return refuse(http.StatusBadRequest, "SubCode=40000. %v. To know more visit https://aka.ms/sbResourceMgrExceptions.", join(x.mistakes))
}

// paging reads which part of a list is wanted.
func (q *adminRequest) paging() (skip, top int, err error) {
	top = defaultPage
	for name, p := range map[string]*int{"$skip": &skip, "$top": &top} {
		if text := q.URL.Query().Get(name); text != "" {
			n, parsed := strconv.Atoi(text)
			if parsed != nil || n < 0 {
				return 0, 0, refuse(http.StatusBadRequest, "SubCode=40000. Bad Request. %s must be a number of at least 0, is %q.", name, text)
			}
			*p = n
		}
	}
	return skip, min(top, maxPage), nil
}

// feed makes a list out of one page of it.
func (q *adminRequest) feed(title string, skip, top int, infos []broker.Info, entry func(broker.Info) atom.Entry) answer {
	f := atom.Feed{ID: q.address(), Title: title, Updated: q.server.hub.Now()}
	for _, i := range infos {
		f.Entries = append(f.Entries, entry(i))
	}
	if len(infos) == top && top > 0 {
		query := q.URL.Query()
		query.Set("$skip", strconv.Itoa(skip+top))
		query.Set("$top", strconv.Itoa(top))
		f.Next = q.base() + q.URL.EscapedPath() + "?" + query.Encode()
	}
	return answer{status: http.StatusOK, document: f}
}

// base is the address under which the client has come.
func (q *adminRequest) base() string {
	scheme := "https://"
	if q.TLS == nil {
		scheme = "http://"
	}
	return scheme + q.Host
}

func (q *adminRequest) address() string { return q.base() + q.URL.RequestURI() }

// entry makes an entry about one entity.
func (q *adminRequest) entry(path, title string, i broker.Info, d atom.Description) atom.Entry {
	address := q.base() + "/" + path
	if q.version != "" {
		address += "?api-version=" + q.version
	}
	return atom.Entry{ID: address, Title: title, Author: q.server.shortName(), Published: i.Created, Updated: i.Updated, Description: d}
}

// shortName is the namespace's name without its domain.
func (s *Server) shortName() string {
	name, _, _ := strings.Cut(s.name, ".")
	return name
}

func (q *adminRequest) namespaceInfo() (answer, error) {
	if q.Method != http.MethodGet {
		return q.notAllowed()
	}
	s := q.server
	started := atom.Time(s.started)
	d := &atom.Namespace{CreatedTime: started, ModifiedTime: started, MessagingSKU: Standard, Name: s.shortName(), NamespaceType: "Messaging"}
	if s.tier == Premium {
		d.MessagingSKU, d.MessagingUnits = Premium, new(int64(1))
	}
	return answer{status: http.StatusOK, document: q.entry("$namespaceinfo", s.shortName(), broker.Info{Created: s.started, Updated: s.started}, d)}, nil
}

func (q *adminRequest) notAllowed() (answer, error) {
	return answer{}, refuse(http.StatusMethodNotAllowed, "SubCode=40500. %s %s is not supported by this emulator.", q.Method, q.URL.Path)
}
