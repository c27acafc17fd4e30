package atom

import (
	"encoding/xml"
	"strings"
)

// The types of filters and actions.
const (
	TrueFilter        Type = "TrueFilter"
	FalseFilter       Type = "FalseFilter"
	SQLFilter         Type = "SqlFilter"
	CorrelationFilter Type = "CorrelationFilter"
	SQLAction         Type = "SqlRuleAction"
	EmptyAction       Type = "EmptyRuleAction"
)

// Rule describes a rule of a subscription.
type Rule struct {
	XMLName xml.Name
	spaces
	Filter    *Filter
	Action    *Action
	CreatedAt *string
	Name      *string
}

// Filter is a rule's filter of any type. A correlation filter has the members from CorrelationId to Properties, the
// others an SQL expression with its parameters.
type Filter struct {
	Type               Type    `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
	CorrelationID      *string `xml:"CorrelationId"`
	MessageID          *string `xml:"MessageId"`
	To                 *string
	ReplyTo            *string
	Label              *string
	SessionID          *string `xml:"SessionId"`
	ReplyToSessionID   *string `xml:"ReplyToSessionId"`
	ContentType        *string
	Properties         *Parameters
	SQLExpression      *string `xml:"SqlExpression"`
	CompatibilityLevel *int64
	Parameters         *Parameters
}

// Action is a rule's action.
type Action struct {
	Type               Type    `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
	SQLExpression      *string `xml:"SqlExpression"`
	CompatibilityLevel *int64
	Parameters         *Parameters
}

// Parameters are named values.
type Parameters struct {
	List []Parameter `xml:"KeyValueOfstringanyType"`
}

// Parameter is one of them.
type Parameter struct {
	Key   string
	Value Value
}

// Value is a value with its type: the local name of an XML schema type, such as "int".
type Value struct {
	Type string
	Text string
}

// valueElement is a value as it is written, with a prefix of its own for its type.
type valueElement struct {
	Type Type   `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
	XSD  string `xml:"xmlns:d6p1,attr"`
	Text string `xml:",chardata"`
}

// MarshalXML writes the value with its type under a prefix that it declares itself, so that the element can be moved.
func (v Value) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	return e.EncodeElement(valueElement{Type: Type("d6p1:" + v.Type), XSD: spaceSchema, Text: v.Text}, start)
}

// UnmarshalXML reads the value under whatever prefix its type has.
func (v *Value) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	var element struct {
		Type string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
		Text string `xml:",chardata"`
	}
	if err := d.DecodeElement(&element, &start); err != nil {
		return err
	}
	_, local, found := strings.Cut(element.Type, ":")
	if !found {
		local = element.Type
	}
	*v = Value{Type: local, Text: element.Text}
	return nil
}

func (*Rule) element() string { return "RuleDescription" }

func (d *Rule) complete() {
	d.declare()
	d.XMLName = xml.Name{Local: d.element()}
}

func (d *Rule) clean() { d.XMLName, d.spaces, d.CreatedAt = xml.Name{}, spaces{}, nil }
