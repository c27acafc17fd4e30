package amqp

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzDecodeFrame: whatever comes, it is a frame or a typed error, and a
// frame that is written again and read again is the same frame.
func FuzzDecodeFrame(f *testing.F) { // A1
	for _, c := range frames {
		f.Add(unhex(c.hex))
	}
	f.Add(unhex("0000001c 02000000 00 a3 0d 616d71703a656e643a6c697374 c0 02 01 40"))
	f.Add(unhex("00000022 02000000 00 80 0000000000000016 d0 0000000b 00000002 70 00000001 56 01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := DecodeFrame(b)
		if err != nil {
			if _, ok := errors.AsType[*DecodeError](err); !ok {
				t.Fatalf("an error without a type: %v", err)
			}
			return
		}
		again, err := AppendFrame(nil, frame)
		if err != nil {
			t.Fatalf("%+v does not encode: %v", frame.Body, err)
		}
		same, err := DecodeFrame(again)
		if err != nil {
			t.Fatalf("% x does not decode: %v", again, err)
		}
		twice, err := AppendFrame(nil, same)
		if err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("% x became % x, %v", again, twice, err)
		}
	})
}

// FuzzDecodeMessage: whatever comes, it is a message or a typed error; its sections are
// all of it, and maps that nobody touches keep the bytes of their values.
func FuzzDecodeMessage(f *testing.F) { // A1
	f.Add(unhex("00 53 70 c0 04 02 41 50 07 00 53 75 a0 01 61"))
	f.Add(unhex("00 53 72 c1 21 06  a3 01 61 71 00000007  a3 01 62 81 0000000000000008  a3 01 63 d0 00000004 00000000 00 53 77 40"))
	f.Add(unhex("00 80 0000000000000073 c0 0a 01 80 0000000000000009 00 53 74 c1 0d 02 a1 01 61 81 0000000000000001 00 53 76 45 00 53 76 45"))
	f.Add(unhex("00 53 71 d1 0000000f 00000002 b3 00000001 61 71 00000005 00 53 75 b0 00000001 62 00 53 75 a0 00 00 53 78 c1 01 00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := SplitMessage(b)
		if err != nil {
			typed(t, err)
			return
		}
		whole := bytes.Join([][]byte{m.Header, m.DeliveryAnnotations, m.MessageAnnotations, m.Properties, m.ApplicationProperties, m.Body, m.Footer}, nil)
		if !bytes.Equal(whole, b) || !bytes.HasSuffix(b, m.Bare()) {
			t.Fatalf("% x split into % x", b, whole)
		}
		_, err = m.DecodeHeader()
		typed(t, err)
		if p, err := m.DecodeProperties(); err == nil {
			again, err := AppendProperties(nil, p)
			if err != nil {
				t.Fatalf("%+v does not encode: %v", p, err)
			}
			same, err := Message{Properties: again}.DecodeProperties()
			if err != nil {
				t.Fatalf("% x does not decode: %v", again, err)
			}
			if twice, err := AppendProperties(nil, same); err != nil || !bytes.Equal(again, twice) {
				t.Fatalf("% x became % x, %v", again, twice, err)
			}
		} else {
			typed(t, err)
		}
		_, err = m.Value()
		typed(t, err)
		_, err = m.DataSections()
		typed(t, err)
		for kind, section := range map[SectionKind]Section{
			KindDeliveryAnnotations: m.DeliveryAnnotations, KindMessageAnnotations: m.MessageAnnotations,
			KindApplicationProperties: m.ApplicationProperties, KindFooter: m.Footer,
		} {
			entries, err := section.Map()
			if err != nil {
				typed(t, err)
				continue
			}
			again, err := AppendMap(nil, kind, entries)
			if err != nil {
				t.Fatalf("%v does not encode: %v", entries, err)
			}
			same, err := Section(again).Map()
			if err != nil || len(same) != len(entries) {
				t.Fatalf("% x became % x, %v", section, again, err)
			}
			for i := range same {
				if !bytes.Equal(same[i].Value.(Raw), entries[i].Value.(Raw)) {
					t.Fatalf("value % x became % x", entries[i].Value, same[i].Value)
				}
			}
		}
	})
}

func typed(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*DecodeError](err); err != nil && !ok {
		t.Fatalf("an error without a type: %v", err)
	}
}
