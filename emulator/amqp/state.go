package amqp

// State is the state of a delivery: Accepted, Rejected, Released, Modified or
// Received; OtherState for what this package has no type for (transactional states).
type State interface {
	appendState(dst []byte) ([]byte, error)
}

// Accepted: the message has been processed.
//
//	<type name="accepted" class="composite" source="list" provides="delivery-state, outcome">
//	  <descriptor name="amqp:accepted:list" code="0x00000000:0x00000024"/>
//	</type>
type Accepted struct{}

// Rejected: the message is invalid or cannot be processed.
//
//	<type name="rejected" class="composite" source="list" provides="delivery-state, outcome">
//	  <descriptor name="amqp:rejected:list" code="0x00000000:0x00000025"/>
//	  <field name="error" type="error"/>
//	</type>
type Rejected struct {
	Error *Error
}

// Released: the message was not and will not be processed by this receiver.
//
//	<type name="released" class="composite" source="list" provides="delivery-state, outcome">
//	  <descriptor name="amqp:released:list" code="0x00000000:0x00000026"/>
//	</type>
type Released struct{}

// Modified: as released, and the message should be changed first.
//
//	<type name="modified" class="composite" source="list" provides="delivery-state, outcome">
//	  <descriptor name="amqp:modified:list" code="0x00000000:0x00000027"/>
//	  <field name="delivery-failed" type="boolean"/>
//	  <field name="undeliverable-here" type="boolean"/>
//	  <field name="message-annotations" type="fields"/>
//	</type>
type Modified struct {
	DeliveryFailed     bool
	UndeliverableHere  bool
	MessageAnnotations Map
}

// Received: not an outcome; how far a delivery was received.
//
//	<type name="received" class="composite" source="list" provides="delivery-state">
//	  <descriptor name="amqp:received:list" code="0x00000000:0x00000023"/>
//	  <field name="section-number" type="uint" mandatory="true"/>
//	  <field name="section-offset" type="ulong" mandatory="true"/>
//	</type>
type Received struct {
	SectionNumber uint32
	SectionOffset uint64
}

// OtherState is a delivery state this package has no type for.
type OtherState struct {
	Described
}
