package amqp

import (
	"fmt"
)

// Message is an encoded message taken apart into its sections (3.2). Every
// field is a view of the encoded message: the section as it came, with its
// descriptor; nil if it is absent. The inside of the sections is looked at only on demand.
type Message struct {
	Header                Section
	DeliveryAnnotations   Section
	MessageAnnotations    Section
	Properties            Section
	ApplicationProperties Section
	Body                  []byte // all data, amqp-sequence or amqp-value sections, one after another
	Footer                Section

	raw  []byte
	bare int
}

// Section is one encoded section.
type Section []byte

// SectionKind is the descriptor code of a section.
type SectionKind uint64

// The sections of a message (3.2).
const (
	KindHeader                SectionKind = 0x70
	KindDeliveryAnnotations   SectionKind = 0x71
	KindMessageAnnotations    SectionKind = 0x72
	KindProperties            SectionKind = 0x73
	KindApplicationProperties SectionKind = 0x74
	KindData                  SectionKind = 0x75
	KindSequence              SectionKind = 0x76
	KindValue                 SectionKind = 0x77
	KindFooter                SectionKind = 0x78
)

// SplitMessage takes an encoded message apart. Sections out of order, twice, unknown or cut off are an error;
// so is a body of mixed sections or of two amqp-values.
func SplitMessage(raw []byte) (Message, error) {
	m := Message{raw: raw, bare: len(raw)}
	d := decoder{b: raw, end: len(raw)}
	last := SectionKind(0)
	bodyStart := 0
	for d.off < len(raw) {
		start := d.off
		kind, err := d.section()
		if err != nil {
			return Message{}, err
		}
		repeats := kind == last && (kind == KindData || kind == KindSequence)
		mixes := kind.isBody() && last.isBody() && kind != last
		if kind <= last && !repeats || mixes {
			return Message{}, &DecodeError{At: start, Err: fmt.Errorf("%w: section 0x%02x after section 0x%02x", ErrMalformed, uint64(kind), uint64(last))}
		}
		if kind >= KindProperties {
			m.bare = min(m.bare, start)
		}
		if kind.isBody() {
			if !last.isBody() {
				bodyStart = start
			}
			m.Body = raw[bodyStart:d.off:d.off]
		} else {
			m.keep(kind, raw[start:d.off:d.off])
		}
		last = kind
	}
	return m, nil
}

func (m *Message) keep(kind SectionKind, section Section) {
	switch kind {
	case KindHeader:
		m.Header = section
	case KindDeliveryAnnotations:
		m.DeliveryAnnotations = section
	case KindMessageAnnotations:
		m.MessageAnnotations = section
	case KindProperties:
		m.Properties = section
	case KindApplicationProperties:
		m.ApplicationProperties = section
	case KindFooter:
		m.Footer = section
	}
}

// section skips one section and returns its kind.
func (d *decoder) section() (SectionKind, error) {
	code, err := d.described()
	if err != nil {
		return 0, err
	}
	kind := SectionKind(code)
	if kind < KindHeader || kind > KindFooter {
		return 0, d.malformed("no section has descriptor 0x%02x", code)
	}
	if d.off < d.end && !kind.holds(Code(d.b[d.off])) {
		return 0, d.malformed("constructor 0x%02x in section 0x%02x", d.b[d.off], code)
	}
	return kind, d.skip(1)
}

// holds reports whether the value of a section may have this constructor.
func (k SectionKind) holds(c Code) bool {
	switch k {
	case KindHeader, KindProperties, KindSequence:
		return c == codeList0 || c == codeList8 || c == codeList32
	case KindData:
		return c == codeBinary8 || c == codeBinary32
	case KindValue:
		return true
	}
	return c == codeMap8 || c == codeMap32
}

func (k SectionKind) isBody() bool { return k >= KindData && k <= KindValue }

// Bare returns the bare message and the footer as they came: everything from the properties on.
func (m Message) Bare() []byte { return m.raw[m.bare:] }

// Value returns the value of a body that is an amqp-value section.
func (m Message) Value() (any, error) {
	d := decoder{b: m.Body, end: len(m.Body)}
	code, err := d.described()
	if err != nil {
		return nil, err
	}
	if SectionKind(code) != KindValue {
		return nil, d.malformed("the body is not an amqp-value")
	}
	return d.value(1)
}

// DataSections returns the contents of a body of data sections, as views.
func (m Message) DataSections() ([][]byte, error) {
	var out [][]byte
	d := decoder{b: m.Body, end: len(m.Body)}
	for d.off < d.end {
		code, err := d.described()
		if err != nil {
			return nil, err
		}
		if SectionKind(code) != KindData {
			return nil, d.malformed("the body is not of data sections")
		}
		c, err := d.code()
		if err != nil {
			return nil, err
		}
		n, err := d.size(c)
		if err != nil {
			return nil, err
		}
		data, err := d.take(n)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// Map decodes a section that is a map (annotations, application-properties, footer). Keys are decoded,
// values stay Raw, views of the message. An absent section is a nil map.
func (s Section) Map() (Map, error) {
	if len(s) == 0 {
		return nil, nil
	}
	d := decoder{b: s, end: len(s)}
	if _, err := d.described(); err != nil {
		return nil, err
	}
	c, err := d.code()
	if err != nil {
		return nil, err
	}
	if c != codeMap8 && c != codeMap32 {
		return nil, d.malformed("constructor 0x%02x where a map belongs", byte(c))
	}
	count, outer, err := d.enter(c)
	if err != nil {
		return nil, err
	}
	m, err := d.mapping(count, 1, true)
	if err != nil {
		return nil, err
	}
	return m, d.leave(outer)
}

// AppendMap appends a section that is a map; kind is one of the map sections'.
func AppendMap(dst []byte, kind SectionKind, m Map) ([]byte, error) {
	return appendMapValue(appendSectionHead(dst, kind), m)
}

// AppendData appends a data section.
func AppendData(dst, data []byte) []byte {
	return appendBinary(appendSectionHead(dst, KindData), data)
}

// AppendValue appends an amqp-value section.
func AppendValue(dst []byte, v any) ([]byte, error) {
	return Append(appendSectionHead(dst, KindValue), v)
}

func appendSectionHead(dst []byte, kind SectionKind) []byte {
	return append(dst, byte(codeDescribed), byte(codeSmallUlong), byte(kind))
}
