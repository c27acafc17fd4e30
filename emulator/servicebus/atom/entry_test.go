package atom_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/servicebus/atom"
)

// fill gives every field a value of its own, but for those that are set by writing and the rule that is never written.
func fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "XMLName" && f.Name != "DefaultRuleDescription" && f.Name != "Space" {
				fill(v.Field(i), path+"."+f.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), path+"[0]")
		fill(v.Index(1), path+"[1]")
	case reflect.String:
		v.SetString("<" + path + "> & \"more\" 'of' it")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(int64(len(path)))
	}
}

// shown is a description with what its pointers point to.
func shown(t *testing.T, d atom.Description) string {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%T %s", d, text)
}

// empty are the descriptions that a client sends.
func empty() []atom.Description {
	return []atom.Description{&atom.Queue{}, &atom.Topic{}, &atom.Subscription{}, &atom.Rule{}}
}

func fresh(d atom.Description) atom.Description {
	return reflect.New(reflect.TypeOf(d).Elem()).Interface().(atom.Description)
}

func encoded(t *testing.T, d atom.Description) []byte {
	t.Helper()
	document, err := atom.Entry{ID: "https://localhost/x", Title: "x", Author: "n", Description: d}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// decoded reads a description of a kind.
func decoded(t *testing.T, document []byte, kind atom.Description) atom.Description {
	t.Helper()
	d := fresh(kind)
	if err := atom.Decode(document, d); err != nil {
		t.Fatalf("%T: %v", kind, err)
	}
	return d
}

func TestWhatIsWrittenIsReadAgainButForWhatAClientCannotSet(t *testing.T) { // A1, A3
	always := []string{"CreatedAt", "UpdatedAt", "AccessedAt", "EntityAvailabilityStatus", "CountDetails"}
	for _, row := range []struct {
		kind     atom.Description
		readOnly []string
	}{
		{&atom.Queue{}, append(always, "SizeInBytes", "MessageCount")},
		{&atom.Topic{}, append(always, "SizeInBytes", "SubscriptionCount", "SQLFilterCount", "CorrelationFilterCount")},
		{&atom.Subscription{}, append(always, "MessageCount")},
		{&atom.Rule{}, []string{"CreatedAt"}},
	} {
		full, want := fresh(row.kind), fresh(row.kind)
		fill(reflect.ValueOf(full).Elem(), "d")
		fill(reflect.ValueOf(want).Elem(), "d")
		for _, name := range row.readOnly {
			reflect.ValueOf(want).Elem().FieldByName(name).SetZero()
		}
		once := decoded(t, encoded(t, full), row.kind)
		if !reflect.DeepEqual(once, want) {
			t.Errorf("read once %s\nwant %s", shown(t, once), shown(t, want))
		}
		if twice := decoded(t, encoded(t, once), row.kind); !reflect.DeepEqual(twice, want) {
			t.Errorf("read twice %s\nwant %s", shown(t, twice), shown(t, want))
		}
	}
}

func TestWhatAClientLeavesOutIsNil(t *testing.T) { // A2
	for _, d := range empty() {
		got := decoded(t, encoded(t, d), d)
		if want := fresh(d); !reflect.DeepEqual(got, want) {
			t.Errorf("%T of nothing is %+v", d, got)
		}
	}
}

// by are documents as others write them.
func by(t *testing.T, name string) []byte {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestElementsAreReadInAnyOrderUnderAnyPrefixAndUnknownOnesSkipped(t *testing.T) { // A4
	var q atom.Queue
	if err := atom.Decode(by(t, "queue.xml"), &q); err != nil {
		t.Fatal(err)
	}
	want := atom.Queue{LockDuration: new("PT30S"), MaxDeliveryCount: new(int32(7)), RequiresSession: new(true), UserMetadata: new(" spaces stay ")}
	if !reflect.DeepEqual(q, want) {
		t.Errorf("queue %+v", q)
	}
	var r atom.Rule
	if err := atom.Decode(by(t, "rule.xml"), &r); err != nil {
		t.Fatal(err)
	}
	wantRule := atom.Rule{
		Name: new("r"),
		Filter: &atom.Filter{Type: atom.SQLFilter, SQLExpression: new("a = @a AND b < 1"), CompatibilityLevel: new(int64(20)), Parameters: &atom.Parameters{List: []atom.Parameter{
			{Key: "@a", Value: atom.Value{Type: "int", Text: "5"}}, {Key: "@b", Value: atom.Value{Type: "string", Text: "text"}}, {Key: "@c", Value: atom.Value{}},
		}}},
		Action: &atom.Action{Type: atom.EmptyAction},
	}
	if !reflect.DeepEqual(r, wantRule) {
		t.Errorf("rule %+v %+v", r.Filter, r.Action)
	}
	var s atom.Subscription
	if err := atom.Decode(by(t, "subscription.xml"), &s); err != nil {
		t.Fatal(err)
	}
	if d := s.DefaultRuleDescription; d == nil || *d.Name != "first" || d.Filter.Type != atom.CorrelationFilter || *d.Filter.Label != "order" || d.CreatedAt != nil {
		t.Errorf("the first rule is %+v", d)
	}
}

func TestTheDocumentsHaveTheServicesForm(t *testing.T) { // A5
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("east", 3600))
	entry := atom.Entry{ID: "https://n/q", Title: "q", Author: "n", Published: at, Updated: at, Description: &atom.Queue{
		LockDuration: new("PT1M"), RequiresSession: new(false), CountDetails: &atom.Counts{Active: 1, DeadLetters: 2, Scheduled: 3, TransferringDeadLetters: 4}, AccessedAt: new(atom.Time(time.Time{})),
	}}
	for name, row := range map[string]struct {
		document interface{ Encode() ([]byte, error) }
		want     []string // in this order
	}{
		"an entry": {entry, []string{
			`<?xml version="1.0" encoding="utf-8"?><entry xmlns="http://www.w3.org/2005/Atom"><id>https://n/q</id><title type="text">q</title>`,
			"<published>2026-01-02T02:04:05.6789Z</published>", "<author><name>n</name></author>", `<link rel="self" href="https://n/q">`,
			`<content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">`,
			"<LockDuration>PT1M</LockDuration><RequiresSession>false</RequiresSession><AccessedAt>0001-01-01T00:00:00</AccessedAt>",
			`<CountDetails xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus"><d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount>`,
			"<d2p1:DeadLetterMessageCount>2<", "<d2p1:ScheduledMessageCount>3<", "<d2p1:TransferDeadLetterMessageCount>4<", "<d2p1:TransferMessageCount>0<", "</QueueDescription></content></entry>",
		}},
		"a feed": {atom.Feed{ID: "https://n/$Resources/Queues", Title: "Queues", Updated: at, Next: "https://n/next?a&b", Entries: []atom.Entry{entry}}, []string{
			`<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Queues</title><id>https://n/$Resources/Queues</id><updated>2026-01-02T02:04:05.6789Z</updated>`,
			`<link rel="self" href="https://n/$Resources/Queues"></link><link rel="next" href="https://n/next?a&amp;b"></link><entry><id>`, "</entry></feed>",
		}},
		"an empty feed": {atom.Feed{Title: "Publicly Listed Services"}, []string{`<title type="text">Publicly Listed Services</title>`, "<updated>0001-01-01T00:00:00</updated>", "</feed>"}},
		"a rule": {atom.Entry{Description: &atom.Rule{
			Filter: &atom.Filter{Type: atom.SQLFilter, SQLExpression: new("a = @a"), CompatibilityLevel: new(int64(20)), Parameters: &atom.Parameters{List: []atom.Parameter{{Key: "@a", Value: atom.Value{Type: "int", Text: "1"}}}}},
			Action: &atom.Action{Type: atom.EmptyAction}, Name: new("r"),
		}}, []string{
			"<RuleDescription ", `<Filter i:type="SqlFilter"><SqlExpression>a = @a</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters><KeyValueOfstringanyType><Key>@a</Key>`,
			`<Value i:type="d6p1:int" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">1</Value>`, `<Action i:type="EmptyRuleAction"></Action><Name>r</Name></RuleDescription>`,
		}},
		"a namespace": {atom.Entry{Description: &atom.Namespace{MessagingSKU: "Premium", MessagingUnits: new(int64(1)), Name: "n"}}, []string{
			"<NamespaceInfo ", "<MessagingSKU>Premium</MessagingSKU><MessagingUnits>1</MessagingUnits>", "<Name>n</Name>",
		}},
		"an error": {atom.Error{Code: 400, Detail: `'a' < "b" & <c>`}, []string{`<Error><Code>400</Code><Detail>'a' &lt; "b" &amp; &lt;c&gt;</Detail></Error>`}},
	} {
		document, err := row.document.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rest := string(document)
		for _, part := range row.want {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Fatalf("%s: %s does not stand where it should in\n%s", name, part, document)
			}
			rest = after
		}
		if err := xml.Unmarshal(document, new(struct{ XMLName xml.Name })); err != nil {
			t.Errorf("%s is no XML: %v", name, err)
		}
	}
}

func TestTheKindOfADescriptionIsTheNameOfItsElement(t *testing.T) {
	for _, d := range empty() {
		kind, err := atom.Kind(encoded(t, d))
		if want := reflect.TypeOf(d).Elem().Name() + "Description"; err != nil || kind != want {
			t.Errorf("%T is a %s, %v", d, kind, err)
		}
	}
}

// broken are documents that cannot be read, with what is said of each.
var broken = map[string]string{
	"":                           "the element entry is missing",
	"text":                       "the element entry is missing",
	"<feed></feed>":              "the element entry is missing",
	"<entry></entry>":            "the element content is missing in entry",
	"<entry><title/></entry>":    "the element content is missing in entry",
	"<entry><content/></entry>":  "is missing in content",
	"<entry><content>":           "unexpected EOF",
	"<entry><content></entry>":   "element <content> closed by </entry>",
	"<entry>\x00</entry>":        "illegal character code",
	"<entry><content><Q></Q>":    "unexpected EOF",
	"<entry><content>&unknown;<": "invalid character entity",
	"<entry><content><QueueDescription><MaxDeliveryCount>x</MaxDeliveryCount></QueueDescription>":   "invalid syntax",
	"<entry><content><QueueDescription><RequiresSession>maybe</RequiresSession></QueueDescription>": "invalid syntax",
}

func TestADocumentThatCannotBeReadIsAnErrorThatSaysWhy(t *testing.T) { // A6
	for document, want := range broken {
		if err := atom.Decode([]byte(document), &atom.Queue{}); !errors.Is(err, atom.ErrDocument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", document, err, want)
		}
	}
	for _, document := range []string{"", "<entry/>", "<entry><content></content></entry>", "<entry><content>&x;"} {
		if kind, err := atom.Kind([]byte(document)); !errors.Is(err, atom.ErrDocument) {
			t.Errorf("%q is a %q, %v", document, kind, err)
		}
	}
}

// FuzzDecode gives the reader whatever comes: it must say that it cannot be read, or what is written of it is read as the same.
func FuzzDecode(f *testing.F) {
	for document := range broken {
		f.Add([]byte(document))
	}
	for _, name := range []string{"queue.xml", "rule.xml", "subscription.xml"} {
		document, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if _, err := atom.Kind(document); err != nil && !errors.Is(err, atom.ErrDocument) {
			t.Errorf("%q: %v", document, err)
		}
		for _, d := range empty() {
			err := atom.Decode(document, d)
			if err != nil {
				if !errors.Is(err, atom.ErrDocument) {
					t.Errorf("%q: %v", document, err)
				}
				continue
			}
			want := decoded(t, document, d)
			if s, ok := want.(*atom.Subscription); ok {
				s.DefaultRuleDescription = nil // which is never written
			}
			again := fresh(d)
			if err := atom.Decode(encoded(t, d), again); err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("%q is written so that it is read as %s, %v; want %s", document, shown(t, again), err, shown(t, want))
			}
		}
	})
}
