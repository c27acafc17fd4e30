package amqp

// Role of the peer that sends a performative.
//
//	<type name="role" class="restricted" source="boolean">
//	  <choice name="sender" value="false"/>
//	  <choice name="receiver" value="true"/>
//	</type>
type Role bool

// The two roles.
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

func (r Role) String() string {
	if r == RoleReceiver {
		return "receiver"
	}
	return "sender"
}

// SenderSettleMode (2.8.2) and ReceiverSettleMode (2.8.3).
type (
	SenderSettleMode   uint8
	ReceiverSettleMode uint8
)

// The settlement policies.
const (
	SendUnsettled SenderSettleMode = 0
	SendSettled   SenderSettleMode = 1
	SendMixed     SenderSettleMode = 2 // the default

	ReceiveFirst  ReceiverSettleMode = 0 // the default: the receiver settles by itself
	ReceiveSecond ReceiverSettleMode = 1 // the receiver settles after the sender has
)

// Performative is one of the nine frame bodies of AMQP; a pointer to one of the types below.
type Performative interface {
	appendTo(dst []byte) ([]byte, error)
	decodeFrom(f *fieldReader)
}

// Open negotiates connection parameters.
//
//	<type name="open" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:open:list" code="0x00000000:0x00000010"/>
//	  <field name="container-id" type="string" mandatory="true"/>
//	  <field name="hostname" type="string"/>
//	  <field name="max-frame-size" type="uint" default="4294967295"/>
//	  <field name="channel-max" type="ushort" default="65535"/>
//	  <field name="idle-time-out" type="milliseconds"/>
//	  <field name="outgoing-locales" type="ietf-language-tag" multiple="true"/>
//	  <field name="incoming-locales" type="ietf-language-tag" multiple="true"/>
//	  <field name="offered-capabilities" type="symbol" multiple="true"/>
//	  <field name="desired-capabilities" type="symbol" multiple="true"/>
//	  <field name="properties" type="fields"/>
//	</type>
type Open struct {
	ContainerID         string
	Hostname            string
	MaxFrameSize        Optional[uint32]
	ChannelMax          Optional[uint16]
	IdleTimeOut         Optional[uint32] // milliseconds
	OutgoingLocales     []Symbol
	IncomingLocales     []Symbol
	OfferedCapabilities []Symbol
	DesiredCapabilities []Symbol
	Properties          Map
}

// Begin begins a session on a channel.
//
//	<type name="begin" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:begin:list" code="0x00000000:0x00000011"/>
//	  <field name="remote-channel" type="ushort"/>
//	  <field name="next-outgoing-id" type="transfer-number" mandatory="true"/>
//	  <field name="incoming-window" type="uint" mandatory="true"/>
//	  <field name="outgoing-window" type="uint" mandatory="true"/>
//	  <field name="handle-max" type="handle" default="4294967295"/>
//	  <field name="offered-capabilities" type="symbol" multiple="true"/>
//	  <field name="desired-capabilities" type="symbol" multiple="true"/>
//	  <field name="properties" type="fields"/>
//	</type>
type Begin struct {
	RemoteChannel       Optional[uint16]
	NextOutgoingID      uint32
	IncomingWindow      uint32
	OutgoingWindow      uint32
	HandleMax           Optional[uint32]
	OfferedCapabilities []Symbol
	DesiredCapabilities []Symbol
	Properties          Map
}

// Attach attaches a link to a session.
//
//	<type name="attach" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:attach:list" code="0x00000000:0x00000012"/>
//	  <field name="name" type="string" mandatory="true"/>
//	  <field name="handle" type="handle" mandatory="true"/>
//	  <field name="role" type="role" mandatory="true"/>
//	  <field name="snd-settle-mode" type="sender-settle-mode" default="mixed"/>
//	  <field name="rcv-settle-mode" type="receiver-settle-mode" default="first"/>
//	  <field name="source" type="*" requires="source"/>
//	  <field name="target" type="*" requires="target"/>
//	  <field name="unsettled" type="map"/>
//	  <field name="incomplete-unsettled" type="boolean" default="false"/>
//	  <field name="initial-delivery-count" type="sequence-no"/>
//	  <field name="max-message-size" type="ulong"/>
//	  <field name="offered-capabilities" type="symbol" multiple="true"/>
//	  <field name="desired-capabilities" type="symbol" multiple="true"/>
//	  <field name="properties" type="fields"/>
//	</type>
type Attach struct {
	Name                 string
	Handle               uint32
	Role                 Role
	SndSettleMode        Optional[SenderSettleMode]
	RcvSettleMode        Optional[ReceiverSettleMode]
	Source               *Source
	Target               *Target
	Coordinator          bool // the target is a transaction coordinator, and Target nil
	Unsettled            Map
	IncompleteUnsettled  bool
	InitialDeliveryCount Optional[uint32]
	MaxMessageSize       Optional[uint64]
	OfferedCapabilities  []Symbol
	DesiredCapabilities  []Symbol
	Properties           Map
}

// Flow updates the flow state of a session, or of a session and one of its links.
//
//	<type name="flow" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:flow:list" code="0x00000000:0x00000013"/>
//	  <field name="next-incoming-id" type="transfer-number"/>
//	  <field name="incoming-window" type="uint" mandatory="true"/>
//	  <field name="next-outgoing-id" type="transfer-number" mandatory="true"/>
//	  <field name="outgoing-window" type="uint" mandatory="true"/>
//	  <field name="handle" type="handle"/>
//	  <field name="delivery-count" type="sequence-no"/>
//	  <field name="link-credit" type="uint"/>
//	  <field name="available" type="uint"/>
//	  <field name="drain" type="boolean" default="false"/>
//	  <field name="echo" type="boolean" default="false"/>
//	  <field name="properties" type="fields"/>
//	</type>
type Flow struct {
	NextIncomingID Optional[uint32]
	IncomingWindow uint32
	NextOutgoingID uint32
	OutgoingWindow uint32
	Handle         Optional[uint32]
	DeliveryCount  Optional[uint32]
	LinkCredit     Optional[uint32]
	Available      Optional[uint32]
	Drain          bool
	Echo           bool
	Properties     Map
}

// Transfer carries a message or a part of it, in the payload after the performative.
//
//	<type name="transfer" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:transfer:list" code="0x00000000:0x00000014"/>
//	  <field name="handle" type="handle" mandatory="true"/>
//	  <field name="delivery-id" type="delivery-number"/>
//	  <field name="delivery-tag" type="delivery-tag"/>
//	  <field name="message-format" type="message-format"/>
//	  <field name="settled" type="boolean"/>
//	  <field name="more" type="boolean" default="false"/>
//	  <field name="rcv-settle-mode" type="receiver-settle-mode"/>
//	  <field name="state" type="*" requires="delivery-state"/>
//	  <field name="resume" type="boolean" default="false"/>
//	  <field name="aborted" type="boolean" default="false"/>
//	  <field name="batchable" type="boolean" default="false"/>
//	</type>
type Transfer struct {
	Handle        uint32
	DeliveryID    Optional[uint32]
	DeliveryTag   []byte
	MessageFormat Optional[uint32]
	Settled       Optional[bool]
	More          bool
	RcvSettleMode Optional[ReceiverSettleMode]
	State         State
	Resume        bool
	Aborted       bool
	Batchable     bool
}

// Disposition tells the state of deliveries.
//
//	<type name="disposition" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:disposition:list" code="0x00000000:0x00000015"/>
//	  <field name="role" type="role" mandatory="true"/>
//	  <field name="first" type="delivery-number" mandatory="true"/>
//	  <field name="last" type="delivery-number"/>
//	  <field name="settled" type="boolean" default="false"/>
//	  <field name="state" type="*" requires="delivery-state"/>
//	  <field name="batchable" type="boolean" default="false"/>
//	</type>
type Disposition struct {
	Role      Role
	First     uint32
	Last      Optional[uint32]
	Settled   bool
	State     State
	Batchable bool
}

// Detach detaches a link.
//
//	<type name="detach" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:detach:list" code="0x00000000:0x00000016"/>
//	  <field name="handle" type="handle" mandatory="true"/>
//	  <field name="closed" type="boolean" default="false"/>
//	  <field name="error" type="error"/>
//	</type>
type Detach struct {
	Handle uint32
	Closed bool
	Error  *Error
}

// End ends a session.
//
//	<type name="end" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:end:list" code="0x00000000:0x00000017"/>
//	  <field name="error" type="error"/>
//	</type>
type End struct {
	Error *Error
}

// Close ends the connection.
//
//	<type name="close" class="composite" source="list" provides="frame">
//	  <descriptor name="amqp:close:list" code="0x00000000:0x00000018"/>
//	  <field name="error" type="error"/>
//	</type>
type Close struct {
	Error *Error
}
