package orchestrator

import (
	"net/http"
	"strings"
)

// tags is what If-Match or If-None-Match names (RFC 9110, 13.1).
type tags struct {
	given bool
	all   bool     // "*": whatever stands
	list  []string // with their W/, if they are weak
}

// tagsOf reads such a header: "*", or entity tags with commas between them.
func tagsOf(r *http.Request, header string) (tags, error) {
	values, given := r.Header[http.CanonicalHeaderKey(header)]
	if !given {
		return tags{}, nil
	}
	rest := strings.TrimSpace(strings.Join(values, ","))
	if rest == "*" {
		return tags{given: true, all: true}, nil
	}
	t := tags{given: true}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			break
		}
		weak, opaque := "", rest
		if after, ok := strings.CutPrefix(rest, "W/"); ok {
			weak, opaque = "W/", after
		}
		after, quoted := strings.CutPrefix(opaque, `"`)
		text, after, ends := strings.Cut(after, `"`)
		next := strings.TrimLeft(after, " \t")
		if !quoted || !ends || strings.ContainsFunc(text, notInTag) || next != "" && next[0] != ',' {
			return tags{}, problem{InvalidRequest, header + ` is neither * nor a list of entity tags: give the ETag as it was answered, its quotes included`}
		}
		t.list = append(t.list, weak+`"`+text+`"`)
		rest = next
	}
	if len(t.list) == 0 {
		return tags{}, problem{InvalidRequest, header + " is empty: give the ETag as it was answered, or leave the header out"}
	}
	return t, nil
}

func notInTag(r rune) bool { return r <= ' ' || r == 0x7f }

// strong reports whether a tag names this very version: If-Match.
func (t tags) strong(etag string) bool {
	for _, tag := range t.list {
		if tag == etag && !strings.HasPrefix(tag, "W/") {
			return true
		}
	}
	return t.all
}

// weak reports whether a tag names this version or one as good: If-None-Match.
func (t tags) weak(etag string) bool {
	for _, tag := range t.list {
		if strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return t.all
}
