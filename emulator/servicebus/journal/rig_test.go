package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/journal"
)

// plain is a codec for messages and descriptions that are strings. A rule's description is what a subject begins with.
type plain struct{}

func (plain) AppendContent(dst []byte, content any) ([]byte, error) {
	text, ok := content.(string)
	if !ok {
		return nil, fmt.Errorf("%v is no text", content)
	}
	return append(dst, text...), nil
}

func (plain) Content(encoded []byte) (any, error) { return string(encoded), nil }

func (plain) AppendChanges(dst []byte, changes map[string]any) ([]byte, error) {
	text, err := json.Marshal(changes)
	return append(dst, text...), err
}

func (plain) Changes(encoded []byte) (changes map[string]any, err error) {
	return changes, json.Unmarshal(encoded, &changes)
}

func (plain) DescriptionJSON(description any) ([]byte, error) { return json.Marshal(description) }

func (plain) QueueDescription(text []byte) (d any, err error) { return d, json.Unmarshal(text, &d) }

func (plain) TopicDescription(text []byte) (d any, err error) { return d, json.Unmarshal(text, &d) }

func (plain) SubscriptionDescription(text []byte) (d any, err error) {
	return d, json.Unmarshal(text, &d)
}

func (plain) Rule(name string, text []byte) (broker.Rule, error) {
	if string(text) == "null" {
		return broker.Rule{Name: name}, nil
	}
	var prefix string
	err := json.Unmarshal(text, &prefix)
	return prefixed(name, prefix), err
}

func prefixed(name, prefix string) broker.Rule {
	return broker.Rule{Name: name, Description: prefix, Apply: func(m *broker.Message) (*broker.Message, error) {
		if strings.HasPrefix(m.Subject, prefix) {
			return m, nil
		}
		return nil, nil
	}}
}

// rig is a namespace that is kept in a folder, and can be made anew from it.
type rig struct {
	t      *testing.T
	folder string
	config broker.Config
	hub    *control.Hub
	j      *journal.Journal
	ns     *broker.Namespace
}

// bubble runs a test on a namespace inside a synctest bubble, where minutes pass at once.
func bubble(t *testing.T, c broker.Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, folder: folder, config: c}
		r.open()
		defer r.close()
		test(t, r)
	})
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tryOpen() error {
	j, err := journal.Open(r.folder, plain{})
	if err != nil {
		return err
	}
	news, err := j.News(r.config)
	if err != nil {
		return errors.Join(err, j.Close())
	}
	news.Journal = j
	hub := control.New()
	ns, err := broker.New(hub, news)
	if err != nil {
		return errors.Join(err, j.Close())
	}
	r.hub, r.j, r.ns = hub, j, ns
	return j.Declared(r.config)
}

func (r *rig) close() {
	r.t.Helper()
	r.ns.Close()
	if err := r.j.Close(); err != nil {
		r.t.Error(err)
	}
}

// again ends the namespace and makes it anew.
func (r *rig) again() {
	r.t.Helper()
	r.close()
	r.open()
}

func (r *rig) entity(path string) broker.Entity {
	r.t.Helper()
	e, err := r.ns.Find(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *rig) queue(path string) *broker.Queue {
	r.t.Helper()
	q, ok := r.entity(path).(*broker.Queue)
	if !ok {
		r.t.Fatalf("%s is no queue", path)
	}
	return q
}

func (r *rig) send(path string, messages ...*broker.Message) []int64 {
	r.t.Helper()
	numbers, err := r.entity(path).Enqueue("sender", messages...)
	r.must(err)
	return numbers
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// take locks the next message.
func (r *rig) take(path string) *broker.Delivery {
	r.t.Helper()
	c := r.queue(path).Consume("worker-1", broker.PeekLock, make(chan struct{}, 1))
	defer c.Close()
	reserved := c.Collect(1)
	if len(reserved) != 1 {
		r.t.Fatalf("%s has no message", path)
	}
	return reserved[0].Begin()
}

func (r *rig) settle(path string, d *broker.Delivery, s broker.Settlement) {
	r.t.Helper()
	r.must(r.queue(path).Settle(d.Token, s))
}

// message has every field set that a message may have.
func message(id string) *broker.Message {
	return &broker.Message{
		ID: id, CorrelationID: "c-" + id, Subject: "s-" + id, TimeToLive: 40 * time.Minute,
		Size: 200, HeaderSize: 70, Content: "the body of " + id,
	}
}

func inSession(id, session string) *broker.Message {
	m := message(id)
	m.SessionID, m.InSession = session, true
	return m
}

// picture is everything that can be seen of a namespace without changing it. Times are as they are shown; when entities
// were last accessed is not kept.
func (r *rig) picture(paths ...string) map[string]any {
	r.t.Helper()
	seen := make(map[string]any)
	infos := append(r.ns.Queues(0, 100), r.ns.Topics(0, 100)...)
	for _, topic := range r.ns.Topics(0, 100) {
		subscriptions, err := r.ns.Subscriptions(topic.Name, 0, 100)
		r.must(err)
		infos = append(infos, subscriptions...)
		for _, s := range subscriptions {
			rules, err := r.ns.Rules(topic.Name, s.Name)
			r.must(err)
			for i := range rules {
				rules[i].Apply = nil
			}
			seen["rules of "+s.Name] = rules
		}
	}
	for _, i := range infos {
		i.Accessed, i.Subscriptions = time.Time{}, nil
		seen["info of "+i.Name] = i
	}
	for _, path := range paths {
		for _, d := range r.entity(path).Peek(0, 1000) {
			m := *d.Message
			d.Message = nil
			seen[fmt.Sprintf("%s #%d", path, d.SequenceNumber)] = fmt.Sprintf("%+v %+v", *d, m)
		}
		if q, ok := r.entity(path).(*broker.Queue); ok {
			seen["sessions of "+path] = q.Sessions(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), 0, 100)
		}
	}
	return seen
}

// wantSame compares two pictures.
func (r *rig) wantSame(before, after map[string]any) {
	r.t.Helper()
	for name, was := range before {
		if is, ok := after[name]; !ok || !reflect.DeepEqual(was, is) {
			r.t.Errorf("%s was\n%+v\nand is\n%+v", name, was, is)
		}
	}
	for name, is := range after {
		if _, ok := before[name]; !ok {
			r.t.Errorf("%s was not there and is %+v", name, is)
		}
	}
}
