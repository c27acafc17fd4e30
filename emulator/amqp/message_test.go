package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/Azure/go-amqp"
)

func TestAMessageIsSplitIntoViewsOfItself(t *testing.T) { // A2
	header := unhex("00 53 70 c0 04 02 41 50 07")
	delivery := unhex("00 53 71 d1 0000000f 00000002 b3 00000001 61 71 00000005")
	annotations := unhex("00 a3 1c 616d71703a6d6573736167652d616e6e6f746174696f6e733a6d6170 c1 09 02 a3 01 62 71 00000007")
	properties := unhex("00 80 0000000000000073 c0 0a 01 80 0000000000000009")
	application := unhex("00 53 74 c1 0d 02 a1 01 61 81 0000000000000001")
	body := unhex("00 53 75 a0 01 61  00 53 75 b0 00000001 62")
	footer := unhex("00 53 78 c1 01 00")
	raw := bytes.Join([][]byte{header, delivery, annotations, properties, application, body, footer}, nil)

	m, err := SplitMessage(raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2][]byte{
		"header": {m.Header, header}, "delivery-annotations": {m.DeliveryAnnotations, delivery},
		"message-annotations": {m.MessageAnnotations, annotations}, "properties": {m.Properties, properties},
		"application-properties": {m.ApplicationProperties, application}, "body": {m.Body, body}, "footer": {m.Footer, footer},
		"bare": {m.Bare(), bytes.Join([][]byte{properties, application, body, footer}, nil)},
	} {
		if !bytes.Equal(pair[0], pair[1]) {
			t.Errorf("%s: % x, want % x", name, pair[0], pair[1])
		}
	}
	if h, err := m.DecodeHeader(); err != nil || h != (Header{Durable: Some(true), Priority: Some[uint8](7)}) {
		t.Errorf("header %+v, %v", h, err)
	}
	if p, err := m.DecodeProperties(); err != nil || !reflect.DeepEqual(p, Properties{MessageID: uint64(9)}) {
		t.Errorf("properties %+v, %v", p, err)
	}
	if d, err := m.DataSections(); err != nil || len(d) != 2 || string(d[0]) != "a" || string(d[1]) != "b" {
		t.Errorf("data %q, %v", d, err)
	}
	if _, err := m.Value(); !errors.Is(err, ErrMalformed) {
		t.Errorf("the value of a body of data: %v", err)
	}
}

func TestUntouchedAnnotationsKeepTheirBytes(t *testing.T) { // A2
	raw := unhex("00 53 72 c1 21 06  a3 01 61 71 00000007  a3 01 62 81 0000000000000008  a3 01 63 d0 00000004 00000000")
	m, err := SplitMessage(append(raw, unhex("00 53 77 40")...))
	if err != nil {
		t.Fatal(err)
	}
	annotations, err := m.MessageAnnotations.Map()
	if err != nil {
		t.Fatal(err)
	}
	again, err := AppendMap(nil, KindMessageAnnotations, annotations)
	if err != nil || !bytes.Equal(again, raw) {
		t.Errorf("untouched: % x, %v", again, err)
	}
	annotations.Set(Symbol("b"), int64(9))
	annotations.Set(Symbol("x-opt-sequence-number"), int64(3))
	annotations.Delete(Symbol("c"))
	again, err = AppendMap(nil, KindMessageAnnotations, annotations)
	want := unhex("00 53 72 c1 27 06  a3 01 61 71 00000007  a3 01 62 55 09  a3 15 782d6f70742d73657175656e63652d6e756d626572 55 03")
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("touched: % x, %v\nwant     % x", again, err, want)
	}
}

func TestAMessageThatIsNoneIsATypedError(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"no section", "40", ErrMalformed},
		{"an unknown section", "00 53 79 45", ErrMalformed},
		{"a performative", "00 53 14 45", ErrMalformed},
		{"a section of another name", "00 a3 01 61 45", ErrMalformed},
		{"a header cut off", "00 53 70 c0 05 01", ErrTruncated},
		{"a section without value", "00 53 77", ErrTruncated},
		{"a header that is a map", "00 53 70 c1 01 00", ErrMalformed},
		{"annotations that are a list", "00 53 72 45", ErrMalformed},
		{"data that is a string", "00 53 75 a1 01 61", ErrMalformed},
		{"two headers", "00 53 70 45 00 53 70 45", ErrMalformed},
		{"a header after properties", "00 53 73 45 00 53 70 45", ErrMalformed},
		{"a footer before the body", "00 53 78 c1 01 00 00 53 77 40", ErrMalformed},
		{"two values", "00 53 77 40 00 53 77 40", ErrMalformed},
		{"data and a value", "00 53 75 a0 00 00 53 77 40", ErrMalformed},
		{"a sequence and data", "00 53 76 45 00 53 75 a0 00", ErrMalformed},
	} {
		_, err := SplitMessage(unhex(c.hex))
		if e, ok := errors.AsType[*DecodeError](err); !ok || !errors.Is(e, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if m, err := SplitMessage(nil); err != nil || m.Body != nil || len(m.Bare()) != 0 {
		t.Errorf("an empty message: %+v, %v", m, err)
	}
}

func TestSectionsAreReadOnDemandAndFailOnDemand(t *testing.T) {
	m, err := SplitMessage(unhex("00 53 70 c0 02 01 a1  00 53 72 c1 02 02 ff  00 53 73 c0 03 01 57 00  00 53 77 c0 02 01 01"))
	if err != nil {
		t.Fatal(err)
	}
	_, header := m.DecodeHeader()
	_, annotations := m.MessageAnnotations.Map()
	_, properties := m.DecodeProperties()
	_, value := m.Value()
	for name, err := range map[string]error{"header": header, "annotations": annotations, "properties": properties, "value": value} {
		if _, ok := errors.AsType[*DecodeError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeaderAndPropertiesRoundTrip(t *testing.T) {
	h := Header{Some(true), Some[uint8](9), Some[uint32](60_000), Some(false), Some[uint32](3)}
	at := time.UnixMilli(1_700_000_000_000).UTC()
	p := Properties{
		MessageID: UUID{15: 1}, UserID: []byte{1}, To: Some("to"), Subject: Some(""), ReplyTo: Some("reply"),
		CorrelationID: []byte("corr"), ContentType: Some(Symbol("text/plain")), ContentEncoding: Some(Symbol("gzip")),
		AbsoluteExpiryTime: Some(at), CreationTime: Some(at.Add(time.Second)),
		GroupID: Some(strings.Repeat("s", 300)), GroupSequence: Some[uint32](300), ReplyToGroupID: Some("r"),
	}
	raw, err := AppendProperties(AppendHeader(nil, h), p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := SplitMessage(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.DecodeHeader(); err != nil || got != h {
		t.Errorf("header %+v, %v", got, err)
	}
	if got, err := m.DecodeProperties(); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("properties %+v, %v", got, err)
	}
	if _, err := AppendProperties(nil, Properties{MessageID: 1}); err == nil {
		t.Error("an int was taken for a message-id")
	}
}

func TestTheRealClientReadsWhatIsBuiltAndTheOtherWayRound(t *testing.T) {
	raw := AppendHeader(nil, Header{DeliveryCount: Some[uint32](2), TTL: Some[uint32](5_000)})
	raw, err := AppendMap(raw, KindMessageAnnotations, Map{{Symbol("x-opt-sequence-number"), int64(77)}})
	if err == nil {
		raw, err = AppendProperties(raw, Properties{MessageID: "id", GroupID: Some("s")})
	}
	if err == nil {
		raw, err = AppendMap(raw, KindApplicationProperties, Map{{"status-code", int32(202)}, {"when", time.UnixMilli(5).UTC()}})
	}
	if err == nil {
		raw, err = AppendValue(raw, Map{{"expirations", ArrayOf(time.UnixMilli(9).UTC())}, {"numbers", ArrayOf(int64(1), int64(2))}})
	}
	if err != nil {
		t.Fatal(err)
	}
	var theirs client.Message
	if err := theirs.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	if theirs.Header.DeliveryCount != 2 || theirs.Header.TTL != 5*time.Second || theirs.Annotations["x-opt-sequence-number"] != int64(77) ||
		theirs.Properties.MessageID != "id" || *theirs.Properties.GroupID != "s" || theirs.ApplicationProperties["status-code"] != int32(202) {
		t.Errorf("the client reads %+v", theirs)
	}
	value, _ := theirs.Value.(map[string]any)
	if !reflect.DeepEqual(value["numbers"], []int64{1, 2}) || !reflect.DeepEqual(value["expirations"], []time.Time{time.UnixMilli(9).UTC()}) {
		t.Errorf("the client reads %#v", theirs.Value)
	}

	back, err := theirs.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	m, err := SplitMessage(back)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := m.Value()
	if err != nil {
		t.Fatal(err)
	}
	numbers, _ := ours.(Map).Get("numbers")
	if got, ok := Slice[int64](numbers); !ok || !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("read back %#v", ours)
	}
	application, err := m.ApplicationProperties.Map()
	if when, _ := application.Get("when"); err != nil || when != time.UnixMilli(5).UTC() {
		t.Errorf("read back %v, %v", when, err)
	}
}
