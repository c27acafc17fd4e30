package amqp

// Source is where the messages of a link come from. Filter and the other maps are fully decoded.
//
//	<type name="source" class="composite" source="list" provides="source">
//	  <descriptor name="amqp:source:list" code="0x00000000:0x00000028"/>
//	  <field name="address" type="*" requires="address"/>
//	  <field name="durable" type="terminus-durability" default="none"/>
//	  <field name="expiry-policy" type="terminus-expiry-policy" default="session-end"/>
//	  <field name="timeout" type="seconds" default="0"/>
//	  <field name="dynamic" type="boolean" default="false"/>
//	  <field name="dynamic-node-properties" type="node-properties"/>
//	  <field name="distribution-mode" type="symbol" requires="std-dist-mode"/>
//	  <field name="filter" type="filter-set"/>
//	  <field name="default-outcome" type="*" requires="outcome"/>
//	  <field name="outcomes" type="symbol" multiple="true"/>
//	  <field name="capabilities" type="symbol" multiple="true"/>
//	</type>
type Source struct {
	Address               string
	Durable               Optional[uint32]
	ExpiryPolicy          Symbol
	Timeout               Optional[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties Map
	DistributionMode      Symbol
	Filter                Map
	DefaultOutcome        State
	Outcomes              []Symbol
	Capabilities          []Symbol
}

// Target is where the messages of a link go to.
//
//	<type name="target" class="composite" source="list" provides="target">
//	  <descriptor name="amqp:target:list" code="0x00000000:0x00000029"/>
//	  <field name="address" type="*" requires="address"/>
//	  <field name="durable" type="terminus-durability" default="none"/>
//	  <field name="expiry-policy" type="terminus-expiry-policy" default="session-end"/>
//	  <field name="timeout" type="seconds" default="0"/>
//	  <field name="dynamic" type="boolean" default="false"/>
//	  <field name="dynamic-node-properties" type="node-properties"/>
//	  <field name="capabilities" type="symbol" multiple="true"/>
//	</type>
type Target struct {
	Address               string
	Durable               Optional[uint32]
	ExpiryPolicy          Symbol
	Timeout               Optional[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties Map
	Capabilities          []Symbol
}
