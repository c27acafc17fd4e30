package amqp

import (
	"encoding/binary"
	"fmt"
)

// The fixed part of a frame (2.3.1): size, data offset, type and channel.
const (
	frameHead    = 8
	minFrameSize = 512 // what every peer must be able to take (2.4.1)
	frameAMQP    = 0x00
	frameSASL    = 0x01
)

// Frame is one AMQP frame. A heartbeat has no body.
type Frame struct {
	Channel uint16
	Body    Performative
	Payload []byte // after a transfer: a part of a message, a view of the frame
}

// DecodeFrame decodes one whole AMQP frame, as it comes over the wire.
func DecodeFrame(b []byte) (Frame, error) {
	channel, body, err := splitFrame(b, frameAMQP)
	if err != nil || len(body) == 0 {
		return Frame{Channel: channel}, err
	}
	var own bodies
	p, payload, err := own.decode(body)
	if err != nil {
		return Frame{}, err
	}
	return Frame{Channel: channel, Body: p, Payload: payload}, nil
}

// AppendFrame appends an AMQP frame with a performative and a payload.
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	dst, mark := beginFrame(dst, frameAMQP, f.Channel)
	if f.Body != nil {
		var err error
		if dst, err = f.Body.appendTo(dst); err != nil {
			return nil, err
		}
	}
	return endFrame(append(dst, f.Payload...), mark), nil
}

func beginFrame(dst []byte, kind byte, channel uint16) (out []byte, mark int) {
	return append(dst, 0, 0, 0, 0, 2, kind, byte(channel>>8), byte(channel)), len(dst)
}

func endFrame(dst []byte, mark int) []byte {
	binary.BigEndian.PutUint32(dst[mark:], uint32(len(dst)-mark))
	return dst
}

// splitFrame checks the head of a frame and returns what follows it.
func splitFrame(b []byte, kind byte) (channel uint16, body []byte, err error) {
	fail := func(at int, why string, args ...any) error {
		return &DecodeError{At: at, Err: fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(why, args...))}
	}
	if len(b) < frameHead {
		return 0, nil, &DecodeError{At: len(b), Err: ErrTruncated}
	}
	size, doff := binary.BigEndian.Uint32(b), int(b[4])*4
	switch {
	case uint64(size) != uint64(len(b)):
		return 0, nil, fail(0, "a frame of %d bytes says it has %d", len(b), size)
	case doff < frameHead || doff > len(b):
		return 0, nil, fail(4, "data offset %d in a frame of %d bytes", doff, len(b))
	case b[5] != kind:
		return 0, nil, fail(5, "frame of type 0x%02x", b[5])
	}
	return binary.BigEndian.Uint16(b[6:]), b[doff:], nil
}

// bodies holds the performatives that come often, so that reading them
// allocates nothing. A performative is good until the next decode.
type bodies struct {
	d           decoder
	f           fieldReader
	transfer    Transfer
	flow        Flow
	disposition Disposition
}

func (r *bodies) of(code uint64) Performative {
	switch code {
	case descOpen:
		return new(Open)
	case descBegin:
		return new(Begin)
	case descAttach:
		return new(Attach)
	case descFlow:
		return &r.flow
	case descTransfer:
		return &r.transfer
	case descDisposition:
		return &r.disposition
	case descDetach:
		return new(Detach)
	case descEnd:
		return new(End)
	case descClose:
		return new(Close)
	}
	return nil
}

// decode decodes the body of a frame; the payload is what follows the performative, which only a transfer may have.
func (r *bodies) decode(body []byte) (p Performative, payload []byte, err error) {
	d := &r.d
	*d = decoder{b: body, end: len(body)}
	code, err := d.described()
	if err != nil {
		return nil, nil, err
	}
	if p = r.of(code); p == nil {
		return nil, nil, d.malformed("no performative has descriptor 0x%02x", code)
	}
	r.f = d.fields()
	p.decodeFrom(&r.f)
	if err := r.f.done(); err != nil {
		return nil, nil, err
	}
	payload = body[d.off:]
	if _, ok := p.(*Transfer); !ok && len(payload) > 0 {
		return nil, nil, d.malformed("%d bytes after the performative", len(payload))
	}
	return p, payload, nil
}
