package servicebus

import (
	"fmt"
	"net/http"
	"sync"

	"oneeffect/emulator/amqp"
)

// maxReplies bounds what waits for a client that gives its reply link no credit.
const maxReplies = 1000

// request is a message to $cbs or to an entity's $management.
type request struct {
	delivery   *amqp.Delivery
	id         any
	replyTo    string
	properties amqp.Map // application properties
	body       any
}

// parseRequest reads a request. Its body is an amqp-value.
func parseRequest(d *amqp.Delivery) (*request, error) {
	m, err := amqp.SplitMessage(d.Message)
	if err != nil {
		return nil, err
	}
	properties, err := m.DecodeProperties()
	if err != nil {
		return nil, fmt.Errorf("properties: %w", err)
	}
	r := &request{delivery: d, id: properties.MessageID, replyTo: properties.ReplyTo.Or("")}
	if r.properties, err = m.ApplicationProperties.Map(); err != nil {
		return nil, fmt.Errorf("application properties: %w", err)
	}
	if r.body, err = m.Value(); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return r, nil
}

// text returns an application property that should be a string.
func (r *request) text(name string) string {
	v, _ := r.properties.Get(name)
	s, _ := v.(string)
	return s
}

// reply is the answer to a request.
type reply struct {
	status      int32
	condition   amqp.Symbol // of an error; some clients look at it before they look at the status
	description string
	body        amqp.Map
}

// replyNames are the application properties of a reply, which $cbs and $management spell differently.
type replyNames struct{ status, description string }

var (
	cbsNames        = replyNames{"status-code", "status-description"}
	managementNames = replyNames{"statusCode", "statusDescription"}
)

func (r reply) encode(names replyNames, correlation any) ([]byte, error) {
	message, err := amqp.AppendProperties(nil, amqp.Properties{CorrelationID: correlation})
	if err != nil {
		return nil, fmt.Errorf("reply: properties: %w", err)
	}
	properties := amqp.Map{
		{Key: names.status, Value: r.status},
		{Key: names.description, Value: r.description},
	}
	if r.condition != "" {
		properties = append(properties, amqp.Entry{Key: "errorCondition", Value: r.condition})
	}
	message, err = amqp.AppendMap(message, amqp.KindApplicationProperties, properties)
	if err != nil {
		return nil, fmt.Errorf("reply: application properties: %w", err)
	}
	var body any
	if r.body != nil {
		body = r.body
	}
	message, err = amqp.AppendValue(message, body)
	if err != nil {
		return nil, fmt.Errorf("reply: body: %w", err)
	}
	return message, nil
}

// refused is the reply to a request that ended in an error.
func refused(err error) reply {
	if wire := wireError(err); wire.Condition == condLockLost {
		return reply{status: http.StatusGone, condition: wire.Condition, description: wire.Description}
	}
	r := refusalOf(err)
	return reply{status: r.status, condition: r.condition, description: err.Error()}
}

// replier is a link on which replies go to the client. It keeps them until the link has credit.
type replier struct {
	*attachment
	names   replyNames
	mu      sync.Mutex
	waiting [][]byte
}

var _ outgoing = (*replier)(nil)

func (p *replier) send(message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) >= maxReplies {
		_ = p.link.Detach(amqp.Errorf(amqp.ErrCondResourceLimitExceeded,
			"%d replies wait for credit on this link", maxReplies)) // gone already is as good
		return
	}
	p.waiting = append(p.waiting, message)
	p.flushLocked()
}

// credit is called when the client has granted credit.
func (p *replier) credit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
	if p.link.Draining() {
		_ = p.link.Drained() // a link that is gone needs no draining
	}
}

func (p *replier) flushLocked() {
	for len(p.waiting) > 0 {
		_, err := p.link.Send(amqp.Outgoing{Settled: true, Message: [][]byte{p.waiting[0]}})
		if err != nil {
			return // no credit yet, or nobody to send to any more
		}
		p.touch()
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
	}
	p.waiting = nil
}
