package servicebus

import (
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"oneeffect/internal/message"
)

// Every name by which telemetry knows messages stands in this file: the messaging
// conventions are not stable yet (semconv v1.43), and a later version has others.

// The names under which a trace context travels. Diagnostic-Id is what older
// Azure SDKs and the portal read; its value is that of traceparent.
const (
	traceparent  = "traceparent"
	diagnosticID = "Diagnostic-Id"
)

// Operations, as messaging.operation.name has them. A settlement is named by what
// it does.
const (
	opSend       = "send"
	opReceive    = "receive"
	opProcess    = "process"
	opComplete   = "complete"
	opAbandon    = "abandon"
	opDeadLetter = "dead_letter"
)

// What a span or a measurement says beside the names of the conventions.
const (
	keyReason = attribute.Key("oneeffect.reason") // of a dead letter
	keyState  = attribute.Key("oneeffect.state")  // of slots
	keyFailed = attribute.Key("failed")           // of a settlement
	keyCopy   = attribute.Key("oneeffect.copy")   // a send of a delayed copy
)

// settling is what a settlement is called, as an operation and as a disposition. A
// delayed copy is a send and a completion.
var settling = map[message.Action]struct {
	operation   string
	disposition attribute.KeyValue
}{
	message.Complete:   {opComplete, semconv.MessagingServiceBusDispositionStatusComplete},
	message.Abandon:    {opAbandon, semconv.MessagingServiceBusDispositionStatusAbandon},
	message.DeadLetter: {opDeadLetter, semconv.MessagingServiceBusDispositionStatusDeadLetter},
}

// operation says which operation of which kind it is.
func operation(name string, kind attribute.KeyValue) []attribute.KeyValue {
	return []attribute.KeyValue{semconv.MessagingOperationName(name), kind}
}

// destination is an entity by the conventions' names: a subscription is named
// beside its topic.
func destination(entity string) []attribute.KeyValue {
	topic, subscription, is := strings.Cut(entity, "/subscriptions/")
	at := []attribute.KeyValue{semconv.MessagingSystemServiceBus, semconv.MessagingDestinationName(topic)}
	if is {
		at = append(at, semconv.MessagingDestinationSubscriptionName(subscription))
	}
	return at
}

// nameOf is what the names of an entity's spans end with.
func nameOf(entity string) string {
	topic, _, _ := strings.Cut(entity, "/subscriptions/")
	return topic
}

// peer is the namespace. network.peer.address is to be an address; Application
// Insights takes the target of a dependency from it and from nothing else, so it
// has the host's name, which is the same for every connection.
func (o Options) peer() []attribute.KeyValue {
	host := o.Namespace
	for part := range strings.SplitSeq(o.ConnectionString, ";") {
		if name, value, _ := strings.Cut(part, "="); strings.EqualFold(name, "Endpoint") {
			_, host, _ = strings.Cut(strings.TrimSuffix(value, "/"), "://")
		}
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(host), semconv.NetworkPeerAddress(host)}
	}
	at := []attribute.KeyValue{semconv.ServerAddress(name), semconv.NetworkPeerAddress(name)}
	if n, err := strconv.Atoi(port); err == nil {
		at = append(at, semconv.ServerPort(n))
	}
	return at
}

// about is what a span says of one message.
func about(id, correlation string) []attribute.KeyValue {
	return []attribute.KeyValue{semconv.MessagingMessageID(id), semconv.MessagingMessageConversationID(correlation)}
}

// delivered is what a span says of one delivery beside that.
func (d *delivery) delivered() []attribute.KeyValue {
	said := append(about(d.MessageID, d.CorrelationID), semconv.MessagingServiceBusMessageDeliveryCount(d.Count))
	if at := d.sdk.EnqueuedTime; at != nil {
		said = append(said, semconv.MessagingServiceBusMessageEnqueuedTime(int(at.Unix())))
	}
	return said
}
