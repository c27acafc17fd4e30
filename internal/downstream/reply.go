package downstream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/internal/message"
)

// The bounds of what is taken from a reply.
const (
	maxReply    = 64 << 10 // kept
	maxDigested = 8 << 20  // read, of a reply that is too large to keep
)

// reply is what came back, as far as it came and as far as we read.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error  // why the body is not whole: what is missing is not used
	digest string // of a body that is whole and too large to keep, sha256:…
}

// read reads a reply to the limit. A body that breaks off, or does not end, takes
// nothing from what the status has said.
func read(response *http.Response) reply {
	r := reply{status: response.StatusCode, header: response.Header}
	if r.status == http.StatusSwitchingProtocols {
		return r // what follows is no reply but the connection, which does not end with the call
	}
	r.body, r.err = io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if len(r.body) <= maxReply {
		return r
	}
	r.err = fmt.Errorf("its body is larger than %d bytes", maxReply)
	h := sha256.New()
	h.Write(r.body)
	rest, err := io.Copy(h, io.LimitReader(response.Body, maxDigested))
	if err == nil && rest < maxDigested {
		r.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	}
	return r
}

// judge says what a reply means.
func (h *caller) judge(r reply) message.Outcome {
	d := h.declared
	m := d.meaningOf(r.status, d.ReplayedHeader != "" && r.header.Get(d.ReplayedHeader) != "")
	o := d.outcome(m, d.Method+" "+h.target+": "+statusText(r.status))
	if o.Effect == message.EffectApplied {
		value, err := r.value()
		o.Value, o.Omitted = value, r.digest
		o.Ref = d.ref(r.header, value)
		if err != nil {
			o.Description += ", reply not kept: " + err.Error()
		}
		return o
	}
	if why := r.problem(); why != "" {
		o.Description += ": " + why
	}
	if o.Retry {
		o.After = retryAfter(r.header, time.Now())
	}
	return o
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// value is the body, if it is whole, says that it is JSON, and is JSON that can be
// stored: with a canonical form, over which its digest is made.
func (r reply) value() (jsontext.Value, error) {
	if r.err != nil {
		return nil, r.err
	}
	if len(r.body) == 0 || !isJSON(r.header.Get("Content-Type")) {
		return nil, nil
	}
	if err := message.CheckCanonical(r.body); err != nil {
		return nil, err
	}
	return r.body, nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// ref is where the result is: the Location of the reply, else what the declared
// pointer finds in it.
func (d Request) ref(header http.Header, value jsontext.Value) string {
	ref := header.Get("Location")
	if ref == "" && d.Result != "" {
		ref = find(value, jsontext.Pointer(d.Result))
	}
	if len(ref) > message.MaxRef {
		return ""
	}
	return strings.ToValidUTF8(ref, "")
}

// find follows a JSON pointer (RFC 6901). A string is returned as it is, anything
// else as its JSON text, and nothing if there is nothing.
func find(value jsontext.Value, pointer jsontext.Pointer) string {
	for token := range pointer.Tokens() {
		switch value.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if json.Unmarshal(value, &members) != nil {
				return ""
			}
			value = members[token]
		case '[':
			var elements []jsontext.Value
			i, err := strconv.Atoi(token)
			if err != nil || json.Unmarshal(value, &elements) != nil || i < 0 || i >= len(elements) {
				return ""
			}
			value = elements[i]
		default:
			return ""
		}
	}
	if value.Kind() == '"' {
		var s string
		_ = json.Unmarshal(value, &s) // it is a string, found in valid JSON
		return s
	}
	return string(value)
}

// problem is what the downstream says about its refusal (RFC 9457), for people.
func (r reply) problem() string {
	if !isJSON(r.header.Get("Content-Type")) {
		return ""
	}
	var p struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(r.body, &p) != nil {
		return ""
	}
	return strings.TrimSuffix(message.Line(strings.TrimPrefix(p.Title+": "+p.Detail, ": ")), ":")
}
