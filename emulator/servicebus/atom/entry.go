package atom

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The namespaces of the documents.
const (
	spaceAtom     = "http://www.w3.org/2005/Atom"
	spaceService  = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
	spaceCounts   = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
	spaceInstance = "http://www.w3.org/2001/XMLSchema-instance"
	spaceSchema   = "http://www.w3.org/2001/XMLSchema"
)

// ErrDocument is wrapped by every reason why a document cannot be read.
var ErrDocument = errors.New("the document cannot be read")

// Description is a *Queue, *Topic, *Subscription, *Rule or *Namespace.
type Description interface {
	// element is the name of the description's element.
	element() string
	// complete sets what is the same in every description of its kind.
	complete()
	// clean takes away what a client may send and cannot set.
	clean()
}

// Entry is one entity with its description.
type Entry struct {
	ID          string // its address
	Title       string // its name
	Author      string // the namespace's name
	Published   time.Time
	Updated     time.Time
	Description Description
}

// Feed is a list of entities.
type Feed struct {
	ID      string // its address
	Title   string
	Updated time.Time
	Next    string // the address of what follows; empty at the end
	Entries []Entry
}

// text is an element with a type, as titles are.
type text struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

type link struct {
	Rel  string `xml:"rel,attr"`
	HRef string `xml:"href,attr"`
}

type content struct {
	Type        string `xml:"type,attr"`
	Description Description
}

type entryElement struct {
	XMLName   xml.Name `xml:"entry"`
	Space     string   `xml:"xmlns,attr,omitempty"`
	ID        string   `xml:"id"`
	Title     text     `xml:"title"`
	Published string   `xml:"published"`
	Updated   string   `xml:"updated"`
	Author    string   `xml:"author>name"`
	Link      link     `xml:"link"`
	Content   content  `xml:"content"`
}

func (e Entry) wire(space string) entryElement {
	e.Description.complete()
	return entryElement{
		Space: space, ID: e.ID, Title: text{"text", e.Title}, Published: Time(e.Published), Updated: Time(e.Updated), Author: e.Author,
		Link: link{"self", e.ID}, Content: content{"application/xml", e.Description},
	}
}

// Encode writes the entry as a document.
func (e Entry) Encode() ([]byte, error) { return encode(e.wire(spaceAtom)) }

// Encode writes the feed as a document.
func (f Feed) Encode() ([]byte, error) {
	document := struct {
		XMLName xml.Name `xml:"feed"`
		Space   string   `xml:"xmlns,attr"`
		Title   text     `xml:"title"`
		ID      string   `xml:"id"`
		Updated string   `xml:"updated"`
		Links   []link   `xml:"link"`
		Entries []entryElement
	}{Space: spaceAtom, Title: text{"text", f.Title}, ID: f.ID, Updated: Time(f.Updated), Links: []link{{"self", f.ID}}}
	if f.Next != "" {
		document.Links = append(document.Links, link{"next", f.Next})
	}
	for _, e := range f.Entries {
		document.Entries = append(document.Entries, e.wire(""))
	}
	return encode(document)
}

// Error is the document that goes with every status from 400 on.
type Error struct {
	Code   int
	Detail string
}

// Encode writes the error as a document. Quotes stay as they are: clients look for them in the document.
func (e Error) Encode() ([]byte, error) {
	var detail strings.Builder
	if err := xml.EscapeText(&detail, []byte(e.Detail)); err != nil {
		return nil, fmt.Errorf("write document: %w", err)
	}
	type verbatim struct {
		Text string `xml:",innerxml"`
	}
	return encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    int
		Detail  verbatim
	}{Code: e.Code, Detail: verbatim{strings.NewReplacer("&#39;", "'", "&#34;", `"`).Replace(detail.String())}})
}

func encode(document any) ([]byte, error) {
	encoded, err := xml.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("write document: %w", err)
	}
	return append([]byte(`<?xml version="1.0" encoding="utf-8"?>`), encoded...), nil
}

// Decode reads the description out of an entry that a client has sent. What a client cannot set is left out.
func Decode(document []byte, into Description) error {
	d := xml.NewDecoder(bytes.NewReader(document))
	for _, name := range []string{"entry", "content", into.element()} {
		start, err := descend(d, name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDocument, err)
		}
		if name != into.element() {
			continue
		}
		if err := d.DecodeElement(into, &start); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDocument, name, err)
		}
	}
	into.clean()
	return nil
}

// Kind returns the name of the description's element in an entry that a client has sent.
func Kind(document []byte) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(document))
	for _, name := range []string{"entry", "content", ""} {
		start, err := descend(d, name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrDocument, err)
		}
		if name == "" {
			return start.Name.Local, nil
		}
	}
	return "", nil
}

// descend finds the next element of a name, or of any, on the present level and goes into it.
func descend(d *xml.Decoder, name string) (xml.StartElement, error) {
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return xml.StartElement{}, fmt.Errorf("the element %s is missing", cmp.Or(name, "with the description"))
		case err != nil:
			return xml.StartElement{}, err
		}
		switch token := token.(type) {
		case xml.EndElement:
			return xml.StartElement{}, fmt.Errorf("the element %s is missing in %s", cmp.Or(name, "with the description"), token.Name.Local)
		case xml.StartElement:
			if name == "" || token.Name.Local == name {
				return token, nil
			}
			if err := d.Skip(); err != nil {
				return xml.StartElement{}, err
			}
		}
	}
}

// Time writes a time; the zero time has a form of its own.
func Time(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00"
	}
	return t.UTC().Format("2006-01-02T15:04:05.9999999Z")
}

// spaces are the namespaces that every description declares.
type spaces struct {
	Default  string `xml:"xmlns,attr"`
	Instance string `xml:"xmlns:i,attr"`
}

func (s *spaces) declare() { s.Default, s.Instance = spaceService, spaceInstance }

// Type is the type of an element where several may stand. It is read under any prefix and written under the service's.
type Type string

// MarshalXMLAttr writes the attribute under the prefix that every description declares.
func (t Type) MarshalXMLAttr(xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: xml.Name{Local: "i:type"}, Value: string(t)}, nil
}
