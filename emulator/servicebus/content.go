package servicebus

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// batchFormat is the message-format of a batch: each data section is one whole encoded message.
const batchFormat = 0x80013700

// maxBatch bounds the messages of one batch. The size limit alone would allow some tens of thousands of empty ones.
const maxBatch = 4_500

// Annotations that belong to the broker, and those that senders set.
const (
	annotationSequence    = amqp.Symbol("x-opt-sequence-number")
	annotationEnqueued    = amqp.Symbol("x-opt-enqueued-time")
	annotationLockedUntil = amqp.Symbol("x-opt-locked-until")
	annotationEnqueueSeq  = amqp.Symbol("x-opt-enqueue-sequence-number")
	annotationSource      = amqp.Symbol("x-opt-deadletter-source")
	annotationState       = amqp.Symbol("x-opt-message-state")
	annotationToken       = amqp.Symbol("x-opt-lock-token")
	annotationScheduled   = amqp.Symbol("x-opt-scheduled-enqueue-time")
	annotationPartition   = amqp.Symbol("x-opt-partition-key")
)

// brokerOwned are taken away from what a sender gives: a client must not believe the lock of another life.
var brokerOwned = []amqp.Symbol{
	annotationSequence, annotationEnqueued, annotationLockedUntil, annotationEnqueueSeq, annotationSource, annotationState,
}

// content is a message in the sections it came in. What nobody has a reason to change stays the sender's bytes.
type content struct {
	before      *before // nil, as it mostly is, if there is nothing
	properties  []byte
	application amqp.Section
	body        []byte
	footer      []byte
}

// before is what stands before the bare message.
type before struct {
	header              amqp.Header
	deliveryAnnotations amqp.Map
	messageAnnotations  amqp.Map
}

// contentOf takes the sections of an encoded message. It keeps views of it.
func contentOf(sections amqp.Message) (c content, err error) {
	c = content{properties: sections.Properties, application: sections.ApplicationProperties, body: sections.Body, footer: sections.Footer}
	var b before
	if b.header, err = sections.DecodeHeader(); err != nil {
		return c, fmt.Errorf("header: %w", err)
	}
	if b.deliveryAnnotations, err = sections.DeliveryAnnotations.Map(); err != nil {
		return c, fmt.Errorf("delivery annotations: %w", err)
	}
	if b.messageAnnotations, err = sections.MessageAnnotations.Map(); err != nil {
		return c, fmt.Errorf("message annotations: %w", err)
	}
	c.put(b)
	return c, nil
}

// head is what stands before the bare message, a copy.
func (c *content) head() before {
	if c.before == nil {
		return before{}
	}
	return *c.before
}

// put replaces what stands before the bare message.
func (c *content) put(b before) {
	c.before = nil
	if b.header != (amqp.Header{}) || len(b.deliveryAnnotations)+len(b.messageAnnotations) > 0 {
		c.before = &b
	}
}

// parseMessage reads an encoded message as a sender gave it. The message keeps views of raw.
func parseMessage(hub *control.Hub, raw []byte) (*broker.Message, error) {
	sections, err := amqp.SplitMessage(raw)
	if err != nil {
		return nil, err
	}
	// One piece of memory for both: there may be a million of them.
	var made struct {
		message broker.Message
		content content
	}
	c, m := &made.content, &made.message
	if *c, err = contentOf(sections); err != nil {
		return nil, err
	}
	if _, err := sections.ApplicationProperties.Map(); err != nil {
		return nil, fmt.Errorf("application properties: %w", err)
	}
	properties, err := sections.DecodeProperties()
	if err != nil {
		return nil, fmt.Errorf("properties: %w", err)
	}
	if properties.MessageID == nil && !hub.Off("servicebus.message-id") {
		// The service makes one, and a client that finds no properties shows no delivery count.
		properties.MessageID = rand.Text()
		if c.properties, err = amqp.AppendProperties(nil, properties); err != nil {
			return nil, fmt.Errorf("properties: %w", err)
		}
	}
	*m = broker.Message{
		ID:            idText(properties.MessageID),
		CorrelationID: idText(properties.CorrelationID),
		Subject:       properties.Subject.Or(""),
		SessionID:     properties.GroupID.Or(""),
		InSession:     properties.GroupID.Set,
		TimeToLive:    time.Duration(c.head().header.TTL.Or(0)) * time.Millisecond,
		Size:          len(raw),
		HeaderSize:    len(raw) - len(sections.Body) - len(sections.Footer),
		Content:       c,
	}
	m.ScheduledFor, err = c.adoptAnnotations(hub)
	return m, err
}

// adoptAnnotations takes away what belongs to the broker, and reads the one annotation that orders something.
func (c *content) adoptAnnotations(hub *control.Hub) (scheduled time.Time, err error) {
	if c.before == nil {
		return time.Time{}, nil
	}
	b := c.head()
	if !hub.Off("servicebus.stripped-annotations") {
		for _, name := range brokerOwned {
			b.messageAnnotations = without(b.messageAnnotations, name)
		}
		b.deliveryAnnotations = without(b.deliveryAnnotations, annotationToken)
	}
	if hub.Off("servicebus.foreign-annotations") {
		b.messageAnnotations, b.deliveryAnnotations = nil, nil
	}
	c.put(b)
	if v, ok := annotation(b.messageAnnotations, annotationPartition); ok && v != nil {
		if _, ok := v.(string); !ok {
			return time.Time{}, fmt.Errorf("%s is of type %T: %w: it must be a string", annotationPartition, v, broker.ErrInvalid)
		}
	}
	v, ok := annotation(b.messageAnnotations, annotationScheduled)
	if !ok {
		return time.Time{}, nil
	}
	if scheduled, ok = v.(time.Time); !ok {
		return time.Time{}, fmt.Errorf("%s is of type %T: %w: it must be a timestamp", annotationScheduled, v, broker.ErrInvalid)
	}
	return scheduled, nil
}

// annotation finds an annotation under a symbol, as it should be, or a string, as some clients send it.
func annotation(m amqp.Map, name amqp.Symbol) (any, bool) {
	if v, ok := m.Get(name); ok {
		return v, true
	}
	return m.Get(string(name))
}

func without(m amqp.Map, name amqp.Symbol) amqp.Map {
	if _, ok := annotation(m, name); !ok {
		return m
	}
	m.Delete(name)
	m.Delete(string(name))
	return m
}

// idText is a message-id or correlation-id, which may be of four types, as text.
func idText(id any) string {
	switch id := id.(type) {
	case string:
		return id
	case uint64:
		return strconv.FormatUint(id, 10)
	case amqp.UUID:
		return id.String()
	case []byte:
		return fmt.Sprintf("%x", id)
	}
	return ""
}

// parseTransfer reads the messages of a transfer: one, or those of a batch. The envelope of a batch is no message.
func parseTransfer(hub *control.Hub, format uint32, raw []byte) ([]*broker.Message, error) {
	if format == batchFormat && hub.Off("servicebus.batch-envelope") {
		format = 0
	}
	switch format {
	case 0:
		m, err := parseMessage(hub, raw)
		return []*broker.Message{m}, err
	case batchFormat:
	default:
		return nil, fmt.Errorf("message-format %#x: %w: 0 and %#x are", format, broker.ErrUnsupported, uint32(batchFormat))
	}
	envelope, err := amqp.SplitMessage(raw)
	if err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	sections, err := envelope.DataSections()
	if err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	if len(sections) == 0 || len(sections) > maxBatch {
		return nil, fmt.Errorf("batch of %d messages: %w: 1 to %d are allowed", len(sections), broker.ErrInvalid, maxBatch)
	}
	messages := make([]*broker.Message, len(sections))
	for i, section := range sections {
		// Copied, or one message left over would keep the whole batch in memory.
		if messages[i], err = parseMessage(hub, bytes.Clone(section)); err != nil {
			return nil, fmt.Errorf("message %d of the batch: %w", i, err)
		}
	}
	return messages, nil
}

// encode writes a delivery as the service shows it, in consecutive parts.
func encode(hub *control.Hub, d *broker.Delivery) ([][]byte, error) {
	c, ok := d.Message.Content.(*content)
	if !ok {
		return nil, fmt.Errorf("message %s has content %T", d.Message.ID, d.Message.Content)
	}
	head, err := c.appendHead(make([]byte, 0, 192), hub, d)
	if err != nil {
		return nil, err
	}
	application, err := c.changed(d.Changes)
	if err != nil {
		return nil, err
	}
	return [][]byte{head, c.properties, application, c.body, c.footer}, nil
}

// appendHead appends the sections before the bare message: what the broker knows, and what the sender said there.
func (c *content) appendHead(dst []byte, hub *control.Hub, d *broker.Delivery) ([]byte, error) {
	own := c.head()
	header := own.header
	header.DeliveryCount = amqp.Some(d.Failures)
	if hub.Off("servicebus.count-from-zero") {
		header.DeliveryCount = amqp.Some(d.Failures + 1)
	}
	header.TTL = amqp.Optional[uint32]{}
	if ttl := d.TimeToLive.Milliseconds(); ttl <= math.MaxUint32 {
		header.TTL = amqp.Some(uint32(ttl))
	}
	dst = amqp.AppendHeader(dst, header)

	delivery := own.deliveryAnnotations
	if !d.LockedUntil.IsZero() && (!d.Deferred || !hub.Off("servicebus.deferred-lock-token")) {
		delivery = append(slices.Clip(delivery), amqp.Entry{Key: annotationToken, Value: amqp.UUID(d.Token)})
	}
	var err error
	if len(delivery) > 0 {
		if dst, err = amqp.AppendMap(dst, amqp.KindDeliveryAnnotations, delivery); err != nil {
			return nil, fmt.Errorf("delivery annotations: %w", err)
		}
	}
	// Exactly these: a client must not learn to rely on annotations that the service does not send.
	annotations := append(slices.Clip(own.messageAnnotations),
		amqp.Entry{Key: annotationSequence, Value: d.SequenceNumber},
		amqp.Entry{Key: annotationEnqueued, Value: d.EnqueuedAt})
	if !d.LockedUntil.IsZero() {
		annotations = append(annotations, amqp.Entry{Key: annotationLockedUntil, Value: d.LockedUntil})
	}
	if d.EnqueuedNumber != 0 {
		annotations = append(annotations, amqp.Entry{Key: annotationEnqueueSeq, Value: d.EnqueuedNumber})
	}
	if d.DeadLetterSource != "" {
		annotations = append(annotations, amqp.Entry{Key: annotationSource, Value: d.DeadLetterSource})
	}
	switch {
	case d.Deferred:
		annotations = append(annotations, amqp.Entry{Key: annotationState, Value: int32(1)})
	case d.State == broker.Scheduled:
		annotations = append(annotations, amqp.Entry{Key: annotationState, Value: int32(2)})
	case hub.Off("servicebus.exact-annotations"):
		annotations = append(annotations, amqp.Entry{Key: annotationState, Value: int32(0)})
	}
	if dst, err = amqp.AppendMap(dst, amqp.KindMessageAnnotations, annotations); err != nil {
		return nil, fmt.Errorf("message annotations: %w", err)
	}
	return dst, nil
}

// changed merges what settlements have set into the application properties.
func (c *content) changed(changes map[string]any) (amqp.Section, error) {
	if len(changes) == 0 {
		return c.application, nil
	}
	properties, err := c.application.Map()
	if err != nil {
		return nil, fmt.Errorf("application properties: %w", err)
	}
	for name, value := range changes {
		properties.Set(name, value)
	}
	section, err := amqp.AppendMap(nil, amqp.KindApplicationProperties, properties)
	if err != nil {
		return nil, fmt.Errorf("application properties: %w", err)
	}
	return section, nil
}

// data is the body's bytes if it is a single data section, for rules that look into bodies.
func data(m *broker.Message) []byte {
	c, ok := m.Content.(*content)
	if !ok {
		return nil
	}
	sections, err := amqp.Message{Body: c.body}.DataSections()
	if err != nil || len(sections) != 1 {
		return nil
	}
	return sections[0]
}

// deliveryTag is a lock token as the service sends it: a .NET Guid, whose first three groups are little-endian.
func deliveryTag(t broker.Token) []byte {
	return []byte{t[3], t[2], t[1], t[0], t[5], t[4], t[7], t[6], t[8], t[9], t[10], t[11], t[12], t[13], t[14], t[15]}
}

// entityText is a path as it appears in rules and events.
func entityText(path string) string { return strings.ToLower(strings.Trim(path, "/")) }
