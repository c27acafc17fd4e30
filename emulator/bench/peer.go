package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"

	"oneeffect/emulator/amqp"
)

// window is how many messages a peer has on their way at once: the credit that a sender is given here.
const window = 1000

// peer is an AMQP client of one session that does no more than it must. It is used by one goroutine, which writes as
// much as it may before it reads, and reads all there is before it writes.
type peer struct {
	conn  net.Conn
	in    *bufio.Reader
	out   []byte // frames to be written before the next wait
	links uint32 // attached so far; the next handle

	received uint32 // transfer frames
	sent     uint32 // the same, and since every message fits a frame, the next delivery-id

	credit  uint32 // of the sender
	count   uint32 // its delivery-count
	settled int    // its messages that were accepted, since the last send; of a receiver's, those whose settlement was answered
	unread  uint32 // credit of the receiver that is not used
}

var (
	headerSASL = []byte("AMQP\x03\x01\x00\x00")
	headerAMQP = []byte("AMQP\x00\x01\x00\x00")
	// saslAnonymous is a whole frame: sasl-init with that mechanism. The token comes later, by $cbs.
	saslAnonymous = []byte("\x00\x00\x00\x19\x02\x01\x00\x00\x00\x53\x41\xc0\x0c\x01\xa3\x09ANONYMOUS")
)

// dialPeer opens a connection with a session and puts a token for everything. The context ends its waits.
func dialPeer(ctx context.Context, address string) (*peer, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	p, err := newPeer(ctx, conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a connection: %w", err), conn.Close())
	}
	return p, nil
}

func newPeer(ctx context.Context, conn net.Conn) (*peer, error) {
	p := &peer{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // an error means that it is closed already
	if err := p.shakeHands(); err != nil {
		return nil, err
	}
	if err := p.put(&amqp.Open{ContainerID: "bench", Hostname: "localhost"}, nil); err != nil {
		return nil, err
	}
	if err := p.put(&amqp.Begin{IncomingWindow: 5 * window, OutgoingWindow: 5 * window}, nil); err != nil {
		return nil, err
	}
	if err := await[*amqp.Begin](p); err != nil {
		return nil, err
	}
	return p, p.putToken()
}

func (p *peer) shakeHands() error {
	if _, err := p.conn.Write(append(append([]byte(nil), headerSASL...), saslAnonymous...)); err != nil {
		return err
	}
	if err := p.expect(headerSASL); err != nil {
		return err
	}
	for range 2 { // the mechanisms and the outcome; a refusal ends the connection
		b, err := p.frame()
		if err != nil {
			return err
		}
		_, _ = p.in.Discard(len(b)) // it is in the buffer
	}
	p.out = append(p.out, headerAMQP...)
	if err := p.flush(); err != nil {
		return err
	}
	return p.expect(headerAMQP)
}

func (p *peer) expect(want []byte) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.in, got); err != nil {
		return fmt.Errorf("read a protocol header: %w", err)
	}
	if string(got) != string(want) {
		return fmt.Errorf("protocol header % x where % x belongs", got, want)
	}
	return nil
}

// put appends a frame to what is written before the next wait.
func (p *peer) put(body amqp.Performative, payload []byte) error {
	var err error
	p.out, err = amqp.AppendFrame(p.out, amqp.Frame{Body: body, Payload: payload})
	return err
}

func (p *peer) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	_, err := p.conn.Write(p.out)
	p.out = p.out[:0]
	return err
}

// frame waits for a whole frame, which stays in the buffer.
func (p *peer) frame() ([]byte, error) {
	head, err := p.in.Peek(4)
	if err != nil {
		return nil, err
	}
	return p.in.Peek(int(binary.BigEndian.Uint32(head)))
}

// handle takes one frame, after writing what is to be written if it has to be waited for. It keeps the books of credit and
// settlement, and returns the frame's body.
func (p *peer) handle() (amqp.Performative, error) {
	if p.in.Buffered() == 0 {
		if err := p.flush(); err != nil {
			return nil, err
		}
	}
	b, err := p.frame()
	if err != nil {
		return nil, err
	}
	f, err := amqp.DecodeFrame(b)
	if err != nil {
		return nil, err
	}
	switch body := f.Body.(type) {
	case *amqp.Flow:
		if body.Handle.Set {
			p.credit = body.LinkCredit.Value - (p.count - body.DeliveryCount.Value)
		}
	case *amqp.Transfer:
		p.received++
	case *amqp.Disposition:
		if _, ok := body.State.(amqp.Accepted); !ok {
			return nil, fmt.Errorf("a message was answered %T %+v", body.State, body.State)
		}
		p.settled += int(body.Last.Or(body.First) - body.First + 1)
	case *amqp.Detach:
		return nil, errors.Join(errors.New("the server has detached a link"), errorOf(body.Error))
	case *amqp.Close:
		return nil, errors.Join(errors.New("the server has closed the connection"), errorOf(body.Error))
	}
	_, err = p.in.Discard(len(b))
	return f.Body, err
}

func errorOf(e *amqp.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// await handles frames until one of a type has come.
func await[T amqp.Performative](p *peer) error {
	for {
		body, err := p.handle()
		if err != nil {
			return err
		}
		if _, ok := body.(T); ok {
			return nil
		}
	}
}

// attach attaches a sender or a receiver and waits for the answer. Messages are settled by the receiver second, as the
// SDK does it, so that every settlement is answered.
func (p *peer) attach(role amqp.Role, address, reply string) error {
	a := amqp.Attach{Name: "link " + strconv.Itoa(int(p.links)), Handle: p.links, Role: role, Source: &amqp.Source{}, Target: &amqp.Target{Address: reply}}
	if role == amqp.RoleSender {
		a.Target.Address = address
		a.InitialDeliveryCount = amqp.Some[uint32](0)
	} else {
		a.Source.Address = address
		a.RcvSettleMode = amqp.Some(amqp.ReceiveSecond)
	}
	p.links++
	p.count, p.credit = 0, 0
	if err := p.put(&a, nil); err != nil {
		return err
	}
	if err := await[*amqp.Attach](p); err != nil {
		return fmt.Errorf("attach to %s: %w", address, err)
	}
	return nil
}

// give grants the receiver attached last so much credit that it has this much.
func (p *peer) give(credit uint32) error {
	p.unread = credit
	return p.put(&amqp.Flow{
		NextIncomingID: amqp.Some(p.received), IncomingWindow: 5 * window, NextOutgoingID: p.sent, OutgoingWindow: 5 * window,
		Handle: amqp.Some(p.links - 1), DeliveryCount: amqp.Some(p.count), LinkCredit: amqp.Some(credit),
	}, nil)
}

// transfer sends a message on the sender attached last.
func (p *peer) transfer(message []byte) error {
	var tag [8]byte
	binary.BigEndian.PutUint64(tag[:], uint64(p.sent))
	err := p.put(&amqp.Transfer{
		Handle: p.links - 1, DeliveryID: amqp.Some(p.sent), DeliveryTag: tag[:], MessageFormat: amqp.Some[uint32](0),
	}, message)
	p.sent++
	p.count++
	p.credit--
	return err
}

// putToken gets the rights for everything, by a shared access signature.
func (p *peer) putToken() error {
	if err := errors.Join(p.attach(amqp.RoleReceiver, "$cbs", "tokens"), p.give(1)); err != nil {
		return err
	}
	if err := p.attach(amqp.RoleSender, "$cbs", ""); err != nil {
		return err
	}
	for p.credit == 0 {
		if err := await[*amqp.Flow](p); err != nil {
			return err
		}
	}
	const resource = "sb://localhost/"
	expiry := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	mac := hmac.New(sha256.New, []byte(sasKey))
	mac.Write([]byte(url.QueryEscape(resource) + "\n" + expiry))
	token := "SharedAccessSignature sr=" + url.QueryEscape(resource) +
		"&sig=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))) + "&se=" + expiry + "&skn=RootManageSharedAccessKey"
	m, err1 := amqp.AppendProperties(nil, amqp.Properties{MessageID: "token", ReplyTo: amqp.Some("tokens")})
	m, err2 := amqp.AppendMap(m, amqp.KindApplicationProperties, amqp.Map{
		{Key: "operation", Value: "put-token"}, {Key: "type", Value: "servicebus.windows.net:sastoken"}, {Key: "name", Value: resource},
	})
	m, err3 := amqp.AppendValue(m, token)
	if err := errors.Join(err1, err2, err3, p.transfer(m)); err != nil {
		return err
	}
	if err := await[*amqp.Transfer](p); err != nil { // a refusal shows at the next attach
		return fmt.Errorf("put a token: %w", err)
	}
	p.settled = 0
	return nil
}

// close says goodbye and waits for the answer.
func (p *peer) close() error {
	err := p.put(&amqp.Close{}, nil)
	if err == nil {
		err = p.flush()
	}
	for err == nil {
		var b []byte
		if b, err = p.frame(); err == nil {
			_, err = p.in.Discard(len(b))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, p.conn.Close())
}
