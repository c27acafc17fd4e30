package cosmos

import (
	"net/http"
	"net/url"
	"strings"
)

// target is what a request's path addresses.
type target struct {
	resourceType string // as it is signed: "", dbs, colls, docs, pkranges, offers
	link         string // as it is signed

	path string // of the URL, escaped

	database  string
	container string
	item      string
	offer     string
	single    bool // one resource, not the feed of its kind
}

// locate reads the escaped path: a slash inside an id is %2F there, and would be
// lost in the decoded one.
func locate(r *http.Request) (target, *failure) {
	t := target{path: r.URL.EscapedPath()}
	path := strings.Trim(t.path, "/")
	if path == "" {
		return t, nil
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil || decoded == "" {
			return t, badRequest("The request path %q is not well formed.", t.path)
		}
		segments[i] = decoded
	}
	// An odd number of segments is a feed, which is signed with the resource it
	// belongs to; an even number is one resource, which is signed with itself.
	last := len(segments) - len(segments)%2
	t.link, t.single = strings.Join(segments[:last], "/"), len(segments)%2 == 0
	t.resourceType = segments[len(segments)-1]
	if t.single {
		t.resourceType = segments[len(segments)-2]
	}
	for i := 0; i+1 < len(segments); i += 2 {
		switch kind, id := segments[i], segments[i+1]; {
		case kind == "dbs" && i == 0:
			t.database = id
		case kind == "colls" && i == 2:
			t.container = id
		case kind == "docs" && i == 4:
			t.item = id
		case kind == "offers" && i == 0:
			t.offer = id
			t.link = strings.ToLower(id)
		default:
			return t, unknownResource(kind, t.path)
		}
	}
	if (len(segments)+1)/2*2-1 != placeOf(t.resourceType) {
		return t, unknownResource(t.resourceType, t.path)
	}
	return t, nil
}

// placeOf is which segment of a path a kind of resource is, 0 of one that is unknown.
func placeOf(kind string) int {
	switch kind {
	case "dbs", "offers":
		return 1
	case "colls":
		return 3
	case "docs", "pkranges":
		return 5
	}
	return 0
}

// unserved are kinds of resources that the service has.
var unserved = map[string]string{
	"sprocs": "stored procedures", "triggers": "triggers", "udfs": "user-defined functions", "users": "users",
	"permissions": "permissions", "conflicts": "the conflict feed", "attachments": "attachments", "media": "media",
	"addresses": "addresses (direct mode)", "clientencryptionkeys": "client encryption keys", "topology": "topology",
	"schemas": "schemas", "snapshots": "snapshots", "partitionkeydeletes": "deletion by partition key",
}

func unknownResource(kind, path string) *failure {
	if what, ok := unserved[strings.ToLower(kind)]; ok {
		return notImplemented(what)
	}
	return badRequest("The request path %q names no resource: %q is not expected there.", path, kind)
}

// routable imitates the service's routing gateway, which takes some ids in a
// body but does not find them again in a path: what it decodes twice no longer
// fits the signature, and control characters are refused outright.
func routable(id string) *failure {
	if strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return badRequest("The item id in the request path holds control characters.")
	}
	twice, err := url.PathUnescape(id)
	if err != nil || twice != id || strings.ContainsAny(id, `/\#`) || strings.HasSuffix(id, " ") {
		return refuse(http.StatusUnauthorized, unauthorized)
	}
	return nil
}

// operation names what a request asks for, in the words that rules and events use.
func (t target) operation(r *http.Request) string {
	if t.resourceType == "" {
		return "account"
	}
	if t.resourceType != "docs" {
		return "metadata"
	}
	if t.single {
		switch r.Method {
		case http.MethodPut:
			return "replace"
		case http.MethodPatch:
			return "patch"
		case http.MethodDelete:
			return "delete"
		}
		return "read"
	}
	if r.Method == http.MethodGet {
		if headerOf(r, "A-Im") != "" {
			return "change-feed"
		}
		return "query"
	}
	// One path serves four operations, told apart by headers in this order.
	switch {
	case isTrue(headerOf(r, "X-Ms-Cosmos-Is-Batch-Request")):
		return "batch"
	case isQuery(r):
		return "query"
	case isTrue(headerOf(r, "X-Ms-Documentdb-Is-Upsert")):
		return "upsert"
	}
	return "create"
}

func isQuery(r *http.Request) bool {
	media, _, _ := strings.Cut(headerOf(r, "Content-Type"), ";")
	return isTrue(headerOf(r, "X-Ms-Documentdb-Query")) || isTrue(headerOf(r, "X-Ms-Documentdb-Isquery")) ||
		strings.EqualFold(strings.TrimSpace(media), "application/query+json")
}

func isTrue(header string) bool { return strings.EqualFold(header, "true") }

// applicationID is what a client put in front of the SDK's own name in its
// User-Agent; the SDK replaces blanks in it by slashes.
func applicationID(userAgent string) string {
	before, _, found := strings.Cut(userAgent, "azsdk-go-azcosmos")
	if !found {
		return ""
	}
	return strings.TrimSpace(before)
}
