package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"oneeffect/emulator/servicebus/broker"
)

// Codec writes and reads what the engine carries and never looks into. What it is given to read is its own to keep. It
// calls nobody: it runs under the locks of the engine.
type Codec interface {
	AppendContent(dst []byte, content any) ([]byte, error)
	Content(encoded []byte) (any, error)
	// AppendChanges and Changes are for application properties set since a message was sent.
	AppendChanges(dst []byte, changes map[string]any) ([]byte, error)
	Changes(encoded []byte) (map[string]any, error)
	// DescriptionJSON and the others are for what a dialect keeps with entities and rules.
	DescriptionJSON(description any) ([]byte, error)
	QueueDescription(text []byte) (any, error)
	TopicDescription(text []byte) (any, error)
	SubscriptionDescription(text []byte) (any, error)
	Rule(name string, text []byte) (broker.Rule, error)
}

func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, t.Unix()), uint64(t.Nanosecond()))
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// encodeMessage appends what never changes of a message in a queue.
func encodeMessage(codec Codec, dst []byte, s *broker.Stored) ([]byte, error) {
	m := s.Message
	dst = appendTime(dst, s.EnqueuedAt)
	dst = binary.AppendVarint(dst, int64(s.TimeToLive))
	dst = binary.AppendVarint(dst, int64(s.Hops))
	dst = binary.AppendVarint(dst, s.EnqueuedNumber)
	dst = appendString(dst, s.Source)
	dst = appendString(dst, m.ID)
	dst = appendString(dst, m.CorrelationID)
	dst = appendString(dst, m.Subject)
	dst = appendString(dst, m.SessionID)
	dst = appendBool(dst, m.InSession)
	dst = binary.AppendVarint(dst, int64(m.TimeToLive))
	dst = appendTime(dst, m.ScheduledFor)
	dst = binary.AppendVarint(dst, int64(m.Size))
	dst = binary.AppendVarint(dst, int64(m.HeaderSize))
	dst, err := codec.AppendContent(dst, m.Content)
	if err != nil {
		return dst, fmt.Errorf("write message %d: %w", s.SequenceNumber, err)
	}
	return dst, nil
}

// isNew reports whether a message in a queue is as one that has just come.
func isNew(s *broker.Stored) bool {
	return s.State == broker.Available && !s.Deferred && s.Failures == 0 && len(s.Changes) == 0
}

// encodeState appends what changes of a message in a queue.
func encodeState(codec Codec, dst []byte, s *broker.Stored) ([]byte, error) {
	letter, ok := letters[s.State]
	if !ok {
		return dst, fmt.Errorf("write message %d: state %d is not for keeping", s.SequenceNumber, s.State)
	}
	dst = append(dst, letter)
	dst = appendBool(dst, s.Deferred)
	dst = binary.AppendUvarint(dst, uint64(s.Failures))
	dst = appendBool(dst, s.State == broker.Locked)
	if s.State == broker.Locked {
		dst = append(dst, s.Token[:]...)
		dst = appendTime(dst, s.LockedUntil)
		dst = appendString(dst, s.Client)
	}
	if len(s.Changes) > 0 {
		var err error
		if dst, err = codec.AppendChanges(dst, s.Changes); err != nil {
			return dst, fmt.Errorf("write message %d: %w", s.SequenceNumber, err)
		}
	}
	return dst, nil
}

// letters are the states on disk, whatever numbers they have in the engine.
var letters = map[broker.State]byte{
	broker.Available: 'a', broker.Locked: 'l', broker.Scheduled: 's', broker.Deferred: 'd', broker.Forwarding: 'f',
}

func stateOf(letter byte) (broker.State, error) {
	for state, l := range letters {
		if l == letter {
			return state, nil
		}
	}
	return 0, fmt.Errorf("no state is written as %q", letter)
}

// reader reads what was written, in its order. The first mistake stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	r.b = nil
	if r.err == nil {
		r.err = errors.New("a value ends too early")
	}
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) string() string { return string(r.take(r.uvarint())) }

func (r *reader) bool() bool { return r.byte() == 1 }

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) time() time.Time {
	seconds := r.varint()
	return time.Unix(seconds, int64(r.uvarint())).UTC()
}

func decodeMessage(codec Codec, value []byte) (s broker.Stored, err error) {
	r := reader{b: value}
	s = broker.Stored{
		EnqueuedAt:     r.time(),
		TimeToLive:     time.Duration(r.varint()),
		Hops:           int(r.varint()),
		EnqueuedNumber: r.varint(),
		Source:         r.string(),
		Message: &broker.Message{
			ID:            r.string(),
			CorrelationID: r.string(),
			Subject:       r.string(),
			SessionID:     r.string(),
			InSession:     r.bool(),
			TimeToLive:    time.Duration(r.varint()),
			ScheduledFor:  r.time(),
			Size:          int(r.varint()),
			HeaderSize:    int(r.varint()),
		},
	}
	if r.err != nil {
		return s, r.err
	}
	// Copied: the value is the store's.
	s.Message.Content, err = codec.Content(append([]byte(nil), r.b...))
	return s, err
}

func decodeState(codec Codec, value []byte, s *broker.Stored) (err error) {
	r := reader{b: value}
	s.State, err = stateOf(r.byte())
	if err != nil {
		return err
	}
	s.Deferred = r.bool()
	s.Failures = uint32(r.uvarint())
	if r.bool() {
		copy(s.Token[:], r.take(uint64(len(s.Token))))
		s.LockedUntil = r.time()
		s.Client = r.string()
	}
	if r.err != nil || len(r.b) == 0 {
		return r.err
	}
	s.Changes, err = codec.Changes(append([]byte(nil), r.b...))
	return err
}
