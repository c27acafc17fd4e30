package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"oneeffect/emulator/servicebus/broker"
)

// Codec writes and reads what the engine carries and never looks into. What it is given to read is its own to keep.
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends a checksum to a value.
func seal(value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, crc32.Checksum(value, castagnoli))
}

// unseal takes the checksum off, and refuses a value that it does not fit.
func unseal(sealed []byte) ([]byte, error) {
	n := len(sealed) - crc32.Size
	if n < 0 || crc32.Checksum(sealed[:n], castagnoli) != binary.LittleEndian.Uint32(sealed[n:]) {
		return nil, fmt.Errorf("%w: a value does not fit its checksum", errDamage)
	}
	return sealed[:n], nil
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

// encodeMessage writes what never changes of a message in a queue.
func (w *writer) encodeMessage(s *broker.Stored) ([]byte, error) {
	m := s.Message
	dst := make([]byte, 0, m.Size+192)
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
	dst, err := w.codec.AppendContent(dst, m.Content)
	if err != nil {
		return nil, fmt.Errorf("write message %d: %w", s.SequenceNumber, err)
	}
	return seal(dst), nil
}

// encodeState writes what changes of a message in a queue; nil if it is as in one that has just come.
func (w *writer) encodeState(s *broker.Stored) ([]byte, error) {
	if s.State == broker.Available && !s.Deferred && s.Failures == 0 && len(s.Changes) == 0 {
		return nil, nil
	}
	dst := make([]byte, 0, 64)
	letter, ok := letters[s.State]
	if !ok {
		return nil, fmt.Errorf("write message %d: state %d is not for keeping", s.SequenceNumber, s.State)
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
		if dst, err = w.codec.AppendChanges(dst, s.Changes); err != nil {
			return nil, fmt.Errorf("write message %d: %w", s.SequenceNumber, err)
		}
	}
	return seal(dst), nil
}

// letters are the states in the file, whatever numbers they have in the engine.
var letters = map[broker.State]byte{
	broker.Available: 'a', broker.Locked: 'l', broker.Scheduled: 's', broker.Deferred: 'd', broker.Forwarding: 'f',
}

func stateOf(letter byte) (broker.State, error) {
	for state, l := range letters {
		if l == letter {
			return state, nil
		}
	}
	return 0, fmt.Errorf("%w: no state is written as %q", errDamage, letter)
}

// reader reads what was written, in its order. The first mistake stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	r.b = nil
	if r.err == nil {
		r.err = fmt.Errorf("%w: a value ends too early", errDamage)
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

func decodeMessage(codec Codec, sealed []byte) (s broker.Stored, err error) {
	value, err := unseal(sealed)
	if err != nil {
		return s, err
	}
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
	// Copied: the file's memory is not ours.
	s.Message.Content, err = codec.Content(append([]byte(nil), r.b...))
	return s, err
}

func decodeState(codec Codec, sealed []byte, s *broker.Stored) error {
	value, err := unseal(sealed)
	if err != nil {
		return err
	}
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
