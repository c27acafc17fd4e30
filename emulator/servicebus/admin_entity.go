package servicebus

import (
	"errors"
	"net/http"
	"strings"

	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
)

// onEntity answers about one queue or topic.
func (q *adminRequest) onEntity() (answer, error) {
	n := q.server.namespace
	switch q.Method {
	case http.MethodGet:
		info, err := n.Info(q.to.entity)
		if errors.Is(err, broker.ErrNotFound) {
			return q.noEntity(), nil
		}
		if err != nil {
			return answer{}, adminError(err)
		}
		return answer{status: http.StatusOK, document: q.describe(info)}, nil
	case http.MethodPut:
		return q.putEntity()
	case http.MethodDelete:
		if _, err := n.Info(q.to.entity); err != nil {
			return answer{}, adminError(err)
		}
		if err := n.Delete(q.to.entity); err != nil {
			return answer{}, adminError(err)
		}
		return answer{status: http.StatusOK}, nil
	}
	return q.notAllowed()
}

// listEntities answers with a page of the queues, or of the topics.
func (q *adminRequest) listEntities() (answer, error) {
	if q.Method != http.MethodGet {
		return q.notAllowed()
	}
	skip, top, err := q.paging()
	if err != nil {
		return answer{}, err
	}
	if q.to.list == "queues" {
		return q.feed("Queues", skip, top, q.server.namespace.Queues(skip, top), q.describe), nil
	}
	return q.feed("Topics", skip, top, q.server.namespace.Topics(skip, top), q.describe), nil
}

// describe makes an entry about a queue or topic.
func (q *adminRequest) describe(i broker.Info) atom.Entry {
	if d, ok := i.Description.(*atom.Topic); ok {
		return q.entry(i.Name, i.Name, i, q.showTopic(i, *d))
	}
	d, _ := i.Description.(*atom.Queue)
	return q.entry(i.Name, i.Name, i, q.showQueue(i, *d))
}

func (q *adminRequest) showQueue(i broker.Info, d atom.Queue) *atom.Queue {
	d.SizeInBytes, d.MessageCount, d.CountDetails = new(i.Bytes), new(int64(i.Total())), counts(i)
	d.CreatedAt, d.UpdatedAt, d.AccessedAt = new(atom.Time(i.Created)), new(atom.Time(i.Updated)), new(atom.Time(i.Accessed))
	d.EntityAvailabilityStatus = new("Available")
	if d.AuthorizationRules == nil {
		d.AuthorizationRules = &atom.AuthorizationRules{}
	}
	if q.version < apiWithMessageSize {
		d.MaxMessageSizeInKilobytes = nil
	}
	return &d
}

func (q *adminRequest) showTopic(i broker.Info, d atom.Topic) *atom.Topic {
	d.SizeInBytes, d.CountDetails, d.SubscriptionCount = new(i.Bytes), counts(i), new(int64(len(i.Subscriptions)))
	d.CreatedAt, d.UpdatedAt, d.AccessedAt = new(atom.Time(i.Created)), new(atom.Time(i.Updated)), new(atom.Time(i.Accessed))
	d.EntityAvailabilityStatus = new("Available")
	if d.AuthorizationRules == nil {
		d.AuthorizationRules = &atom.AuthorizationRules{}
	}
	if q.version < apiWithMessageSize {
		d.MaxMessageSizeInKilobytes = nil
	}
	if q.version >= apiWithFilterCounts {
		d.SQLFilterCount, d.CorrelationFilterCount = filterCounts(i)
	}
	return &d
}

func counts(i broker.Info) *atom.Counts {
	return &atom.Counts{
		Active: int64(i.Active), DeadLetters: int64(i.DeadLetters), Scheduled: int64(i.Scheduled),
		TransferringDeadLetters: int64(i.TransferDeadLetters),
	}
}

// putEntity creates or updates a queue or a topic: which, says the document.
func (q *adminRequest) putEntity() (answer, error) {
	kind, err := atom.Kind(q.body)
	switch {
	case err != nil:
		return answer{}, adminError(err)
	case kind == "QueueDescription":
		return q.putQueue()
	case kind == "TopicDescription":
		return q.putTopic()
	}
	return answer{}, refuse(http.StatusBadRequest, "SubCode=40000. Bad Request. %s describes neither a queue nor a topic.", kind)
}

func (q *adminRequest) putQueue() (answer, error) {
	d, old := &atom.Queue{}, (*atom.Queue)(nil)
	if err := q.read(d); err != nil {
		return answer{}, err
	}
	n, x := q.server.namespace, q.server.examine()
	if q.update {
		info, err := n.Info(q.to.entity)
		if err != nil {
			return answer{}, adminError(err)
		}
		var ok bool
		if old, ok = info.Description.(*atom.Queue); !ok {
			return answer{}, refuse(http.StatusConflict, "SubCode=40900. Conflict. %s is a topic.", info.Name)
		}
		x.kept = map[string]*string{
			"LockDuration":                        old.LockDuration,
			"DefaultMessageTimeToLive":            old.DefaultMessageTimeToLive,
			"DuplicateDetectionHistoryTimeWindow": old.DuplicateDetectionHistoryTimeWindow,
		}
	}
	config := x.queue(q.to.entity, d)
	x.forwards(n, q.to.entity, config.RequiresSession, config.ForwardTo, config.ForwardDeadLettersTo)
	if err := q.forwarding(d.ForwardTo, d.ForwardDeadLetteredMessagesTo); err != nil {
		return answer{}, err
	}
	if old == nil {
		x.entityName(q.to.entity)
	} else {
		x.queueUpdate(old, d)
	}
	if err := x.examined(); err != nil {
		return answer{}, err
	}
	switch {
	case old == nil:
		return q.done(http.StatusCreated, n.CreateQueue(config))
	case same(old, d):
		return q.done(http.StatusOK, nil)
	}
	return q.done(http.StatusOK, n.UpdateQueue(config))
}

func (q *adminRequest) putTopic() (answer, error) {
	d, old := &atom.Topic{}, (*atom.Topic)(nil)
	if err := q.read(d); err != nil {
		return answer{}, err
	}
	n, x := q.server.namespace, q.server.examine()
	if q.update {
		info, err := n.Info(q.to.entity)
		if err != nil {
			return answer{}, adminError(err)
		}
		var ok bool
		if old, ok = info.Description.(*atom.Topic); !ok {
			return answer{}, refuse(http.StatusConflict, "SubCode=40900. Conflict. %s is a queue.", info.Name)
		}
		x.kept = map[string]*string{
			"DefaultMessageTimeToLive":            old.DefaultMessageTimeToLive,
			"DuplicateDetectionHistoryTimeWindow": old.DuplicateDetectionHistoryTimeWindow,
		}
	}
	config := x.topic(q.to.entity, d)
	if old == nil {
		x.entityName(q.to.entity)
	} else {
		x.topicUpdate(old, d)
	}
	if err := x.examined(); err != nil {
		return answer{}, err
	}
	switch {
	case old == nil:
		return q.done(http.StatusCreated, n.CreateTopic(config))
	case same(old, d):
		return q.done(http.StatusOK, nil)
	}
	return q.done(http.StatusOK, n.UpdateTopic(config))
}

// done answers a change of a queue or topic with what has become of it.
func (q *adminRequest) done(status int, err error) (answer, error) {
	if err != nil {
		return answer{}, adminError(err)
	}
	info, err := q.server.namespace.Info(q.to.entity)
	if err != nil {
		return answer{}, adminError(err)
	}
	return answer{status: status, document: q.describe(info)}, nil
}

// forwards checks where the messages and the dead letters of an entity are to go on to.
func (x *examination) forwards(n *broker.Namespace, from string, hasSessions bool, messagesTo, deadLettersTo string) {
	if hasSessions && messagesTo != "" {
		x.mistake("messages of an entity that requires sessions cannot be forwarded")
	}
	for _, target := range []string{messagesTo, deadLettersTo} {
		if target == "" {
			continue
		}
		if strings.EqualFold(target, from) {
			x.mistake("messages of %q cannot be forwarded to itself", from)
		} else if _, err := n.Info(target); err != nil {
			x.mistake("messages cannot be forwarded to %q: there is no such queue or topic", target)
		}
	}
}

func (s *Server) examine() *examination { return &examination{tier: s.tier} }
