package amqp

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

// SplitMessage takes an encoded message apart. Sections out of order, twice, unknown or cut off are an error;
// so is a body of mixed sections or of two amqp-values.
func SplitMessage(raw []byte) (Message, error) { panic("todo") }

// Bare returns the bare message and the footer as they came: everything from the properties on.
func (m Message) Bare() []byte { panic("todo") }

// Value returns the value of a body that is an amqp-value section.
func (m Message) Value() (any, error) { panic("todo") }

// DataSections returns the contents of a body of data sections, as views.
func (m Message) DataSections() ([][]byte, error) { panic("todo") }

// DecodeHeader decodes the section, or returns the zero header if it is absent.
func (m Message) DecodeHeader() (Header, error) { panic("todo") }

// DecodeProperties decodes the section, or returns the zero properties if it is absent.
func (m Message) DecodeProperties() (Properties, error) { panic("todo") }

// Map decodes a section that is a map (annotations, application-properties, footer). Keys are decoded,
// values stay Raw. An absent section is a nil map.
func (s Section) Map() (Map, error) { panic("todo") }

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
	AbsoluteExpiryTime Optional[int64] // milliseconds since the Unix epoch
	CreationTime       Optional[int64] // milliseconds since the Unix epoch
	GroupID            Optional[string]
	GroupSequence      Optional[uint32]
	ReplyToGroupID     Optional[string]
}

// AppendHeader appends an encoded header section.
func AppendHeader(dst []byte, h Header) []byte { panic("todo") }

// AppendProperties appends an encoded properties section.
func AppendProperties(dst []byte, p Properties) ([]byte, error) { panic("todo") }

// AppendMap appends a section that is a map; kind is one of the map sections' codes.
func AppendMap(dst []byte, kind SectionKind, m Map) ([]byte, error) { panic("todo") }

// AppendData appends a data section.
func AppendData(dst, data []byte) []byte { panic("todo") }

// AppendValue appends an amqp-value section.
func AppendValue(dst []byte, v any) ([]byte, error) { panic("todo") }

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
