package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// frames, written down by hand from the specification; some of them are what the real client sends.
var frames = []struct {
	name  string
	frame Frame
	hex   string
}{
	{"heartbeat", Frame{}, "00000008 02000000"},
	{"open", Frame{Body: &Open{
		ContainerID: "c", Hostname: "localhost", MaxFrameSize: Some[uint32](65_536), ChannelMax: Some[uint16](65_535),
		IdleTimeOut: Some[uint32](30_000), Properties: Map{{Symbol("product"), "p"}},
	}}, `0000003c 02000000 00 53 10 c0 2f 0a
		a1 01 63  a1 09 6c6f63616c686f7374  70 00010000  60 ffff  70 00007530  40 40 40 40
		c1 0d 02 a3 07 70726f64756374 a1 01 70`},
	{"begin of the client", Frame{Channel: 1, Body: &Begin{
		IncomingWindow: 5_000, OutgoingWindow: 5_000, HandleMax: Some[uint32](4_294_967_294),
	}}, "00000022 02000001 00 53 11 c0 15 08 40 43 70 00001388 70 00001388 70 fffffffe 40 40 40"},
	{"begin of the server", Frame{Channel: 1, Body: &Begin{
		RemoteChannel: Some[uint16](1), IncomingWindow: 5_000, OutgoingWindow: 5_000, HandleMax: Some[uint32](255),
	}}, "00000021 02000001 00 53 11 c0 14 08 60 0001 43 70 00001388 70 00001388 52 ff 40 40 40"},
	{"attach of a receiver that settles second", Frame{Body: &Attach{
		Name: "l", Role: RoleReceiver, RcvSettleMode: Some(ReceiveSecond), Source: &Source{Address: "q"},
	}}, `00000031 02000000 00 53 12 c0 24 0e
		a1 01 6c 43 41 40 50 01
		00 53 28 c0 0e 0b a1 01 71 40 40 40 42 40 40 40 40 40 40
		40 40 42 40 40 40 40 40`},
	{"refused attach", Frame{Body: &Attach{
		Name: "l", Role: RoleSender, RcvSettleMode: Some(ReceiveSecond), InitialDeliveryCount: Some[uint32](0),
	}}, "0000001f 02000000 00 53 12 c0 12 0e a1 01 6c 43 42 40 50 01 40 40 40 42 43 40 40 40 40"},
	{"attach to a coordinator", Frame{Body: &Attach{Name: "l", Role: RoleSender, Coordinator: true}},
		"00000021 02000000 00 53 12 c0 14 0e a1 01 6c 43 42 40 40 40 00 53 30 45 40 42 40 40 40 40 40"},
	{"flow of credit", Frame{Body: &Flow{
		NextIncomingID: Some[uint32](1), IncomingWindow: 5_000, NextOutgoingID: 2, OutgoingWindow: 5_000,
		Handle: Some[uint32](0), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](100),
	}}, "00000024 02000000 00 53 13 c0 17 0b 52 01 70 00001388 52 02 70 00001388 43 43 52 64 40 42 42 40"},
	{"transfer", Frame{Body: &Transfer{
		DeliveryID: Some[uint32](3), DeliveryTag: []byte{0xaa}, MessageFormat: Some[uint32](0), Settled: Some(false),
	}, Payload: []byte{0x00, 0x53, 0x77, 0x40}},
		"00000020 02000000 00 53 14 c0 0f 0b 43 52 03 a0 01 aa 43 42 42 40 40 42 42 42 00 53 77 40"},
	{"transfer of a batch", Frame{Body: &Transfer{MessageFormat: Some[uint32](0x80013700), More: true}},
		"0000001d 02000000 00 53 14 c0 10 0b 43 40 40 70 80013700 40 41 40 40 42 42 42"},
	{"disposition", Frame{Body: &Disposition{Role: RoleReceiver, First: 3, Settled: true, State: Accepted{}}},
		"00000018 02000000 00 53 15 c0 0b 06 41 52 03 40 41 00 53 24 45 42"},
	{"disposition of a dead-lettering", Frame{Body: &Disposition{Role: RoleReceiver, First: 3, Last: Some[uint32](4), State: Rejected{&Error{
		Condition: "x:y", Info: Map{{Symbol("r"), "bad"}},
	}}}}, `00000033 02000000 00 53 15 c0 26 06 41 52 03 52 04 42
		00 53 25 c0 19 01 00 53 1d c0 13 03 a3 03 783a79 a1 00 c1 09 02 a3 01 72 a1 03 626164
		42`},
	{"disposition of a modification", Frame{Body: &Disposition{Role: RoleReceiver, State: Modified{UndeliverableHere: true, MessageAnnotations: Map{{"a", int32(1)}}}}},
		"00000023 02000000 00 53 15 c0 16 06 41 43 40 42 00 53 27 c0 0b 03 42 41 c1 06 02 a1 01 61 54 01 42"},
	{"disposition of progress", Frame{Body: &Disposition{State: Received{SectionNumber: 1, SectionOffset: 300}}},
		"00000024 02000000 00 53 15 c0 17 06 42 43 40 42 00 53 23 c0 0c 02 52 01 80 000000000000012c 42"},
	{"disposition of a transaction", Frame{Body: &Disposition{State: OtherState{Described{uint64(0x34), List{[]byte{1}, nil}}}}},
		"0000001d 02000000 00 53 15 c0 10 06 42 43 40 42 00 53 34 c0 05 02 a0 01 01 40 42"},
	{"detach", Frame{Body: &Detach{Handle: 1, Closed: true, Error: &Error{Condition: "a:b", Description: "c"}}},
		"00000020 02000000 00 53 16 c0 13 03 52 01 41 00 53 1d c0 0a 03 a3 03 613a62 a1 01 63 40"},
	{"end", Frame{Channel: 9, Body: &End{}}, "0000000f 02000009 00 53 17 c0 02 01 40"},
	{"close", Frame{Body: &Close{}}, "0000000f 02000000 00 53 18 c0 02 01 40"},
}

func TestFramesAreEncodedByteForByte(t *testing.T) {
	for _, c := range frames {
		got, err := AppendFrame(nil, c.frame)
		if want := unhex(c.hex); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s:\n got % x, %v\nwant % x", c.name, got, err, want)
		}
	}
}

func TestFramesAreDecoded(t *testing.T) {
	for _, c := range frames {
		got, err := DecodeFrame(unhex(c.hex))
		if err != nil || !reflect.DeepEqual(got.Body, c.frame.Body) || got.Channel != c.frame.Channel || !bytes.Equal(got.Payload, c.frame.Payload) {
			t.Errorf("%s: %+v %+v, %v", c.name, got, got.Body, err)
		}
	}
}

func TestFramesOfOtherEncodersAreDecoded(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      Performative
	}{
		{"trailing fields left out", "00000011 02000000 00 53 16 c0 04 02 52 01 41", &Detach{Handle: 1, Closed: true}},
		{"no fields at all", "0000000c 02000000 00 53 17 45", &End{}},
		{"wide forms", "00000022 02000000 00 80 0000000000000016 d0 0000000b 00000002 70 00000001 56 01", &Detach{Handle: 1, Closed: true}},
		{"a descriptor by name", "0000001c 02000000 00 a3 0d 616d71703a656e643a6c697374 c0 02 01 40", &End{}},
		{"an extended header", "00000013 03000000 deadbeef 00 53 17 c0 02 01 40", &End{}},
		{"fields of a later version", "00000010 02000000 00 53 17 c0 03 02 40 41", &End{}},
		{"one symbol in place of an array", "00000019 02000000 00 53 10 c0 0c 08 a1 01 63 40 40 40 40 40 40 a3 00", &Open{ContainerID: "c", OfferedCapabilities: []Symbol{""}}},
	} {
		got, err := DecodeFrame(unhex(c.hex))
		if err != nil || !reflect.DeepEqual(got.Body, c.want) {
			t.Errorf("%s: %+v, %v", c.name, got.Body, err)
		}
	}
}

func TestBrokenFramesAreTypedErrors(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"nothing", "", ErrTruncated},
		{"less than a head", "00000008 020000", ErrTruncated},
		{"another size than said", "00000009 02000000", ErrMalformed},
		{"a data offset within the head", "00000008 01000000", ErrMalformed},
		{"a data offset behind the end", "00000008 03000000", ErrMalformed},
		{"a SASL frame", "00000008 02010000", ErrMalformed},
		{"no described value", "00000009 02000000 40", ErrMalformed},
		{"no performative", "0000000c 02000000 00 53 19 45", ErrMalformed},
		{"a performative that is a map", "0000000e 02000000 00 53 17 c1 01 00", ErrMalformed},
		{"a payload after an end", "0000000d 02000000 00 53 17 45 00", ErrMalformed},
		{"no handle", "0000000c 02000000 00 53 16 45", ErrMalformed},
		{"a handle of another type", "00000010 02000000 00 53 16 c0 03 01 53 01", ErrMalformed},
		{"a role of another type", "00000010 02000000 00 53 15 c0 03 01 50 01", ErrMalformed},
		{"more fields than there are bytes", "0000000f 02000000 00 53 17 c0 02 05 40", ErrTooMany},
		{"an error that is a target", "00000012 02000000 00 53 17 c0 05 01 00 53 29 45", ErrMalformed},
		{"an error without condition", "00000012 02000000 00 53 17 c0 05 01 00 53 1d 45", ErrMalformed},
		{"a source that is a target", "0000001a 02000000 00 53 12 c0 0d 06 a1 01 6c 43 42 40 40 00 53 29 45", ErrMalformed},
	} {
		_, err := DecodeFrame(unhex(c.hex))
		if e, ok := errors.AsType[*DecodeError](err); !ok || !errors.Is(e, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestATransferFrameNeverExceedsItsHeadroom(t *testing.T) {
	const max = 1<<32 - 1
	b, err := AppendFrame(nil, Frame{Channel: 1<<16 - 1, Body: &Transfer{
		Handle: max, DeliveryID: Some[uint32](max), DeliveryTag: make([]byte, 32), MessageFormat: Some[uint32](max), Settled: Some(true), More: true,
	}})
	if err != nil || len(b) != headroom {
		t.Errorf("the largest head of a transfer has %d bytes, headroom is %d, %v", len(b), headroom, err)
	}
}

func TestEveryFieldOfAnAttachRoundTrips(t *testing.T) {
	want := &Attach{
		Name: "l", Handle: 300, Role: RoleReceiver, SndSettleMode: Some(SendMixed), RcvSettleMode: Some(ReceiveFirst),
		Source: &Source{
			Address: "q", Durable: Some[uint32](2), ExpiryPolicy: "never", Timeout: Some[uint32](9), Dynamic: true,
			DynamicNodeProperties: Map{{Symbol("lifetime-policy"), "x"}}, DistributionMode: "move",
			Filter:         Map{{Symbol("f"), Described{uint64(0x137000000C), nil}}},
			DefaultOutcome: Modified{DeliveryFailed: true}, Outcomes: []Symbol{"a", "b"}, Capabilities: []Symbol{"c"},
		},
		Target: &Target{
			Address: "t", Durable: Some[uint32](1), ExpiryPolicy: "link-detach", Timeout: Some[uint32](8), Dynamic: true,
			DynamicNodeProperties: Map{{Symbol("supported-dist-modes"), Symbol("move")}}, Capabilities: []Symbol{"d", "e"},
		},
		Unsettled: Map{{[]byte{1}, nil}}, IncompleteUnsettled: true, InitialDeliveryCount: Some[uint32](7),
		MaxMessageSize: Some[uint64](1<<64 - 1), OfferedCapabilities: []Symbol{"f"}, DesiredCapabilities: []Symbol{"g"},
		Properties: Map{{Symbol("h"), int64(-5)}},
	}
	b, err := AppendFrame(nil, Frame{Body: want})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeFrame(b)
	if err != nil || !reflect.DeepEqual(got.Body, want) {
		t.Errorf("%+v, %v", got.Body, err)
	}
}

func TestEveryDescriptorMayBeAName(t *testing.T) {
	names := map[Symbol]uint64{
		"amqp:open:list": 0x10, "amqp:begin:list": 0x11, "amqp:attach:list": 0x12, "amqp:flow:list": 0x13, "amqp:transfer:list": 0x14,
		"amqp:disposition:list": 0x15, "amqp:detach:list": 0x16, "amqp:end:list": 0x17, "amqp:close:list": 0x18, "amqp:error:list": 0x1d,
		"amqp:received:list": 0x23, "amqp:accepted:list": 0x24, "amqp:rejected:list": 0x25, "amqp:released:list": 0x26,
		"amqp:modified:list": 0x27, "amqp:source:list": 0x28, "amqp:target:list": 0x29, "amqp:coordinator:list": 0x30,
		"amqp:sasl-mechanisms:list": 0x40, "amqp:sasl-init:list": 0x41, "amqp:sasl-challenge:list": 0x42,
		"amqp:sasl-response:list": 0x43, "amqp:sasl-outcome:list": 0x44,
		"amqp:header:list": 0x70, "amqp:delivery-annotations:map": 0x71, "amqp:message-annotations:map": 0x72,
		"amqp:properties:list": 0x73, "amqp:application-properties:map": 0x74, "amqp:data:binary": 0x75,
		"amqp:amqp-sequence:list": 0x76, "amqp:amqp-value:*": 0x77, "amqp:footer:map": 0x78, "amqp:other:list": descUnknown,
	}
	for name, want := range names {
		b, err := Append(nil, Described{name, true})
		if err != nil {
			t.Fatal(err)
		}
		d := decoder{b: b, end: len(b)}
		if got, err := d.described(); got != want || err != nil {
			t.Errorf("%s: 0x%02x, %v, want 0x%02x", name, got, err, want)
		}
	}
}
