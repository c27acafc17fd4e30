package amqp

import (
	"bytes"
	"errors"
	"fmt"
)

// The protocol headers (2.2, 5.2): "AMQP", protocol id, version 1.0.0.
var (
	headerAMQP = [8]byte{'A', 'M', 'Q', 'P', 0, 1, 0, 0}
	headerSASL = [8]byte{'A', 'M', 'Q', 'P', 3, 1, 0, 0}
)

const anonymous Symbol = "ANONYMOUS"

// The outcomes of sasl-outcome (5.3.3.6) that are used.
const (
	saslOK   uint8 = 0
	saslAuth uint8 = 1
)

var errAuthentication = errors.New("authentication failed")

func onlyAnonymous(mechanism Symbol, _ []byte) error {
	if mechanism != anonymous {
		return fmt.Errorf("mechanism %q is offered for show, only %s works", mechanism, anonymous)
	}
	return nil
}

// handshake reads the protocol headers and the SASL exchange. What is read is
// answered through the writer, so peers that send everything at once and
// peers that wait for every answer are the same.
func (c *Conn) handshake(r *frameReader) error {
	if err := c.header(r, headerSASL); err != nil {
		return err
	}
	c.queueSASL(func(dst []byte) ([]byte, error) {
		w := compose(dst, descMechanisms)
		w.symbols(c.o.Mechanisms)
		return w.done()
	})
	body, err := r.next(frameSASL)
	if err != nil {
		return err
	}
	mechanism, response, err := decodeInit(body.payload)
	r.discard(body)
	if err != nil {
		return err
	}
	code := saslOK
	refusal := c.o.Authenticate(mechanism, response)
	if refusal != nil {
		code = saslAuth
	}
	c.queueSASL(func(dst []byte) ([]byte, error) {
		w := compose(dst, descOutcome)
		w.any(code)
		w.null()
		return w.done()
	})
	if refusal != nil {
		return fmt.Errorf("%w: %w", errAuthentication, refusal)
	}
	return c.header(r, headerAMQP)
}

// header reads a protocol header and answers with the one we want here, which the specification asks for in both cases.
func (c *Conn) header(r *frameReader, want [8]byte) error {
	got, err := r.header()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.out = append(c.out, want[:]...)
	c.signal()
	c.mu.Unlock()
	if !bytes.Equal(got[:], want[:]) {
		return fmt.Errorf("protocol header % x where % x belongs: %w", got, want, ErrMalformed)
	}
	return nil
}

func (c *Conn) queueSASL(body func(dst []byte) ([]byte, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, mark := beginFrame(c.out, frameSASL, 0)
	out, err := body(out)
	if err != nil {
		c.log.Info("encode a SASL frame", "error", err)
		return
	}
	c.out = endFrame(out, mark)
	c.signal()
}

// decodeInit decodes the peer's choice.
//
//	<type name="sasl-init" class="composite" source="list" provides="sasl-frame">
//	  <descriptor name="amqp:sasl-init:list" code="0x00000000:0x00000041"/>
//	  <field name="mechanism" type="symbol" mandatory="true"/>
//	  <field name="initial-response" type="binary"/>
//	  <field name="hostname" type="string"/>
//	</type>
func decodeInit(b []byte) (mechanism Symbol, response []byte, err error) {
	err = decodeComposite(b, descInit, func(f *fieldReader) {
		m := read[Symbol](f, "a symbol")
		f.need(m.Set, "mechanism")
		mechanism = m.Value
		response = f.binary()
	})
	return mechanism, response, err
}
