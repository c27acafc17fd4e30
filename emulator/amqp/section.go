package amqp

import "time"

// Header is the section of transport headers.
//
//	<type name="header" class="composite" source="list" provides="section">
//	  <descriptor name="amqp:header:list" code="0x00000000:0x00000070"/>
//	  <field name="durable" type="boolean" default="false"/>
//	  <field name="priority" type="ubyte" default="4"/>
//	  <field name="ttl" type="milliseconds"/>
//	  <field name="first-acquirer" type="boolean" default="false"/>
//	  <field name="delivery-count" type="uint" default="0"/>
//	</type>
type Header struct {
	Durable       Optional[bool]
	Priority      Optional[uint8]
	TTL           Optional[uint32] // milliseconds
	FirstAcquirer Optional[bool]
	DeliveryCount Optional[uint32]
}

// Properties is the section of the immutable properties.
//
//	<type name="properties" class="composite" source="list" provides="section">
//	  <descriptor name="amqp:properties:list" code="0x00000000:0x00000073"/>
//	  <field name="message-id" type="*" requires="message-id"/>
//	  <field name="user-id" type="binary"/>
//	  <field name="to" type="*" requires="address"/>
//	  <field name="subject" type="string"/>
//	  <field name="reply-to" type="*" requires="address"/>
//	  <field name="correlation-id" type="*" requires="message-id"/>
//	  <field name="content-type" type="symbol"/>
//	  <field name="content-encoding" type="symbol"/>
//	  <field name="absolute-expiry-time" type="timestamp"/>
//	  <field name="creation-time" type="timestamp"/>
//	  <field name="group-id" type="string"/>
//	  <field name="group-sequence" type="sequence-no"/>
//	  <field name="reply-to-group-id" type="string"/>
//	</type>
type Properties struct {
	MessageID          any // uint64, UUID, []byte or string; nil if absent
	UserID             []byte
	To                 Optional[string]
	Subject            Optional[string]
	ReplyTo            Optional[string]
	CorrelationID      any // as MessageID
	ContentType        Optional[Symbol]
	ContentEncoding    Optional[Symbol]
	AbsoluteExpiryTime Optional[time.Time]
	CreationTime       Optional[time.Time]
	GroupID            Optional[string]
	GroupSequence      Optional[uint32]
	ReplyToGroupID     Optional[string]
}

// DecodeHeader decodes the section, or returns the zero header if it is absent.
func (m Message) DecodeHeader() (h Header, err error) {
	if len(m.Header) == 0 {
		return h, nil
	}
	err = decodeComposite(m.Header, uint64(KindHeader), func(f *fieldReader) {
		h = Header{
			Durable:       f.boolean(),
			Priority:      read[uint8](f, "a ubyte"),
			TTL:           f.uint(),
			FirstAcquirer: f.boolean(),
			DeliveryCount: f.uint(),
		}
	})
	return h, err
}

// AppendHeader appends an encoded header section.
func AppendHeader(dst []byte, h Header) []byte {
	w := compose(dst, byte(KindHeader))
	opt(&w, h.Durable)
	opt(&w, h.Priority)
	w.optUint(h.TTL)
	opt(&w, h.FirstAcquirer)
	w.optUint(h.DeliveryCount)
	out, _ := w.done() // scalars always encode
	return out
}

// DecodeProperties decodes the section, or returns the zero properties if it is absent.
func (m Message) DecodeProperties() (p Properties, err error) {
	if len(m.Properties) == 0 {
		return p, nil
	}
	err = decodeComposite(m.Properties, uint64(KindProperties), func(f *fieldReader) {
		p = Properties{
			MessageID:          f.any(),
			UserID:             f.binary(),
			To:                 read[string](f, "a string"),
			Subject:            read[string](f, "a string"),
			ReplyTo:            read[string](f, "a string"),
			CorrelationID:      f.any(),
			ContentType:        read[Symbol](f, "a symbol"),
			ContentEncoding:    read[Symbol](f, "a symbol"),
			AbsoluteExpiryTime: read[time.Time](f, "a timestamp"),
			CreationTime:       read[time.Time](f, "a timestamp"),
			GroupID:            read[string](f, "a string"),
			GroupSequence:      f.uint(),
			ReplyToGroupID:     read[string](f, "a string"),
		}
	})
	return p, err
}

// AppendProperties appends an encoded properties section. Identifiers are not checked for their type, beyond having one in AMQP.
func AppendProperties(dst []byte, p Properties) ([]byte, error) {
	w := compose(dst, byte(KindProperties))
	w.any(p.MessageID)
	w.binary(p.UserID)
	opt(&w, p.To)
	opt(&w, p.Subject)
	opt(&w, p.ReplyTo)
	w.any(p.CorrelationID)
	opt(&w, p.ContentType)
	opt(&w, p.ContentEncoding)
	opt(&w, p.AbsoluteExpiryTime)
	opt(&w, p.CreationTime)
	opt(&w, p.GroupID)
	w.optUint(p.GroupSequence)
	opt(&w, p.ReplyToGroupID)
	return w.done()
}
