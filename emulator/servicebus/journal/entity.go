package journal

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"oneeffect/emulator/servicebus/broker"
)

// entity is a description on disk. Durations are in nanoseconds.
type entity struct {
	Kind string `json:"kind"` // "queue", "topic" or "subscription"
	Of   string `json:"of,omitempty"`
	Name string `json:"name"`

	Created  time.Time `json:"created,omitzero"`
	Updated  time.Time `json:"updated,omitzero"`
	Accessed time.Time `json:"accessed,omitzero"`

	LockDuration          time.Duration `json:"lockDuration,omitempty"`
	MaxDelivery           int           `json:"maxDelivery,omitempty"`
	TimeToLive            time.Duration `json:"timeToLive,omitempty"`
	DeadLetterExpired     bool          `json:"deadLetterExpired,omitempty"`
	DeadLetterUnevaluated bool          `json:"deadLetterUnevaluated,omitempty"`
	DetectDuplicates      bool          `json:"detectDuplicates,omitempty"`
	DuplicateWindow       time.Duration `json:"duplicateWindow,omitempty"`
	RequiresSession       bool          `json:"requiresSession,omitempty"`
	ForwardTo             string        `json:"forwardTo,omitempty"`
	ForwardDeadLettersTo  string        `json:"forwardDeadLettersTo,omitempty"`
	AutoDelete            time.Duration `json:"autoDelete,omitempty"`
	Status                broker.Status `json:"status,omitempty"`
	MaxMessage            int           `json:"maxMessage,omitempty"`
	MaxSize               int64         `json:"maxSize,omitempty"`

	Description json.RawMessage `json:"description,omitempty"`
	Rules       []rule          `json:"rules,omitempty"`
}

type rule struct {
	Name        string          `json:"name"`
	Created     time.Time       `json:"created,omitzero"`
	Description json.RawMessage `json:"description,omitempty"`
}

func encodeEntity(codec Codec, d *broker.Description) ([]byte, error) {
	var e entity
	var description any
	var rules []broker.Rule
	switch {
	case d.Queue != nil:
		q := d.Queue
		description = q.Description
		e = entity{
			Kind: "queue", Name: q.Name, LockDuration: q.LockDuration, MaxDelivery: q.MaxDelivery, TimeToLive: q.TimeToLive,
			DeadLetterExpired: q.DeadLetterExpired, DetectDuplicates: q.DetectDuplicates, DuplicateWindow: q.DuplicateWindow,
			RequiresSession: q.RequiresSession, ForwardTo: q.ForwardTo, ForwardDeadLettersTo: q.ForwardDeadLettersTo,
			AutoDelete: q.AutoDelete, Status: q.Status, MaxMessage: q.MaxMessage, MaxSize: q.MaxSize,
		}
	case d.Topic != nil:
		t := d.Topic
		description = t.Description
		e = entity{
			Kind: "topic", Name: t.Name, TimeToLive: t.TimeToLive, DetectDuplicates: t.DetectDuplicates,
			DuplicateWindow: t.DuplicateWindow, AutoDelete: t.AutoDelete, Status: t.Status, MaxMessage: t.MaxMessage, MaxSize: t.MaxSize,
		}
	case d.Subscription != nil:
		s := d.Subscription
		description, rules = s.Description, s.Rules
		e = entity{
			Kind: "subscription", Of: d.Of, Name: s.Name, LockDuration: s.LockDuration, MaxDelivery: s.MaxDelivery, TimeToLive: s.TimeToLive,
			DeadLetterExpired: s.DeadLetterExpired, DeadLetterUnevaluated: s.DeadLetterUnevaluated, RequiresSession: s.RequiresSession,
			ForwardTo: s.ForwardTo, ForwardDeadLettersTo: s.ForwardDeadLettersTo, AutoDelete: s.AutoDelete, Status: s.Status,
		}
	}
	e.Created, e.Updated, e.Accessed = d.Created, d.Updated, d.Accessed
	var err error
	if e.Description, err = codec.DescriptionJSON(description); err != nil {
		return nil, fmt.Errorf("describe %s: %w", e.Name, err)
	}
	for _, r := range rules {
		text, err := codec.DescriptionJSON(r.Description)
		if err != nil {
			return nil, fmt.Errorf("describe rule %s of %s: %w", r.Name, e.Name, err)
		}
		e.Rules = append(e.Rules, rule{r.Name, r.Created, text})
	}
	return json.Marshal(e)
}

func decodeEntity(codec Codec, text []byte) (d broker.Description, err error) {
	var e entity
	if err := json.Unmarshal(text, &e); err != nil {
		return d, err
	}
	d = broker.Description{Of: e.Of, Created: e.Created, Updated: e.Updated, Accessed: e.Accessed}
	switch e.Kind {
	case "queue":
		d.Queue = &broker.QueueConfig{
			Name: e.Name, LockDuration: e.LockDuration, MaxDelivery: e.MaxDelivery, TimeToLive: e.TimeToLive,
			DeadLetterExpired: e.DeadLetterExpired, DetectDuplicates: e.DetectDuplicates, DuplicateWindow: e.DuplicateWindow,
			RequiresSession: e.RequiresSession, ForwardTo: e.ForwardTo, ForwardDeadLettersTo: e.ForwardDeadLettersTo,
			AutoDelete: e.AutoDelete, Status: e.Status, MaxMessage: e.MaxMessage, MaxSize: e.MaxSize,
		}
		d.Queue.Description, err = codec.QueueDescription(e.Description)
	case "topic":
		d.Topic = &broker.TopicConfig{
			Name: e.Name, TimeToLive: e.TimeToLive, DetectDuplicates: e.DetectDuplicates, DuplicateWindow: e.DuplicateWindow,
			AutoDelete: e.AutoDelete, Status: e.Status, MaxMessage: e.MaxMessage, MaxSize: e.MaxSize,
		}
		d.Topic.Description, err = codec.TopicDescription(e.Description)
	case "subscription":
		d.Subscription = &broker.SubscriptionConfig{
			Name: e.Name, LockDuration: e.LockDuration, MaxDelivery: e.MaxDelivery, TimeToLive: e.TimeToLive,
			DeadLetterExpired: e.DeadLetterExpired, DeadLetterUnevaluated: e.DeadLetterUnevaluated, RequiresSession: e.RequiresSession,
			ForwardTo: e.ForwardTo, ForwardDeadLettersTo: e.ForwardDeadLettersTo, AutoDelete: e.AutoDelete, Status: e.Status,
			Rules: []broker.Rule{},
		}
		d.Subscription.Description, err = codec.SubscriptionDescription(e.Description)
		for _, stored := range e.Rules {
			r, failed := codec.Rule(stored.Name, stored.Description)
			if failed != nil {
				return d, fmt.Errorf("rule %s: %w", stored.Name, failed)
			}
			r.Created = stored.Created
			d.Subscription.Rules = append(d.Subscription.Rules, r)
		}
	default:
		return d, fmt.Errorf("no entity is a %q", e.Kind)
	}
	return d, err
}

// News returns those entities of a configuration that it declares otherwise than the last one did that Declared was
// called with, or for the first time. A declaration that has not changed says nothing new: what has been made of its
// entity since, through the management API, stands. A topic is declared together with its subscriptions.
func (j *Journal) News(c broker.Config) (broker.Config, error) {
	sums, err := j.declarations(c)
	news := c
	news.Queues, news.Topics = nil, nil
	known := func(name string) bool {
		sum, ok := j.declared[name]
		return ok && sum == sums[name]
	}
	for _, q := range c.Queues {
		if !known("queue " + q.Name) {
			news.Queues = append(news.Queues, q)
		}
	}
	for _, t := range c.Topics {
		if !known("topic " + t.Name) {
			news.Topics = append(news.Topics, t)
		}
	}
	return news, err
}

// Declared notes that all entities of a configuration have become what it declares. It is called once.
func (j *Journal) Declared(c broker.Config) error {
	sums, err := j.declarations(c)
	if err != nil {
		return err
	}
	j.store.Begin()
	for name := range j.declared {
		if _, ok := sums[name]; !ok {
			j.store.Delete(bucketDeclared, []byte(name))
		}
	}
	for name, sum := range sums {
		if sum != j.declared[name] {
			j.store.Put(bucketDeclared, []byte(name), []byte(sum))
		}
	}
	j.store.End()
	kept := make(chan struct{})
	j.store.Kept(func() { close(kept) })
	select {
	case <-kept:
		return nil
	case <-j.store.Failed():
		return j.store.Err()
	}
}

// declarations are the checksums of a configuration's entities.
func (j *Journal) declarations(c broker.Config) (map[string]string, error) {
	sums := make(map[string]string)
	var errs []error
	sum := func(name string, descriptions ...broker.Description) {
		h := sha256.New()
		for i := range descriptions {
			text, err := encodeEntity(j.codec, &descriptions[i])
			errs = append(errs, err)
			h.Write(append(text, '\n'))
		}
		sums[name] = string(h.Sum(nil))
	}
	for _, q := range c.Queues {
		sum("queue "+q.Name, broker.Description{Queue: &q})
	}
	for _, t := range c.Topics {
		all := []broker.Description{{Topic: &t}}
		for i := range t.Subscriptions {
			all = append(all, broker.Description{Of: t.Name, Subscription: &t.Subscriptions[i]})
		}
		sum("topic "+t.Name, all...)
	}
	return sums, errors.Join(errs...)
}
