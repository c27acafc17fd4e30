package servicebus

import (
	"net/http"

	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
)

// onSubscription answers about one subscription of a topic, or lists them.
func (q *adminRequest) onSubscription() (answer, error) {
	n, topic, name := q.server.namespace, q.to.entity, q.to.subscription
	switch {
	case q.Method == http.MethodGet && name == "":
		skip, top, err := q.paging()
		if err != nil {
			return answer{}, err
		}
		infos, err := n.Subscriptions(topic, skip, top)
		if err != nil {
			return answer{}, adminError(err)
		}
		return q.feed("Subscriptions", skip, top, infos, q.describeSubscription), nil
	case q.Method == http.MethodGet:
		return q.doneSubscription(http.StatusOK, nil)
	case q.Method == http.MethodPut && name != "":
		return q.putSubscription()
	case q.Method == http.MethodDelete && name != "":
		if _, err := n.SubscriptionInfo(topic, name); err != nil {
			return answer{}, adminError(err)
		}
		if err := n.Delete(broker.SubscriptionPath(topic, name)); err != nil {
			return answer{}, adminError(err)
		}
		return answer{status: http.StatusOK}, nil
	}
	return q.notAllowed()
}

func (q *adminRequest) putSubscription() (answer, error) {
	d := &atom.Subscription{}
	if err := q.read(d); err != nil {
		return answer{}, err
	}
	n, x := q.server.namespace, q.server.examine()
	first, old := d.DefaultRuleDescription, (*atom.Subscription)(nil)
	d.DefaultRuleDescription = nil
	if q.update {
		info, err := n.SubscriptionInfo(q.to.entity, q.to.subscription)
		if err != nil {
			return answer{}, adminError(err)
		}
		old, _ = info.Description.(*atom.Subscription)
		x.kept = map[string]*string{"LockDuration": old.LockDuration, "DefaultMessageTimeToLive": old.DefaultMessageTimeToLive}
	}
	config := x.subscription(q.to.subscription, d)
	x.forwards(n, broker.SubscriptionPath(q.to.entity, q.to.subscription), config.RequiresSession, config.ForwardTo, config.ForwardDeadLettersTo)
	if err := q.forwarding(d.ForwardTo, d.ForwardDeadLetteredMessagesTo); err != nil {
		return answer{}, err
	}
	if old == nil {
		x.nestedName(q.to.subscription)
		config.Rules = []broker.Rule{x.rule(broker.DefaultRule, first)}
	} else {
		x.subscriptionUpdate(old, d)
	}
	if err := x.examined(); err != nil {
		return answer{}, err
	}
	switch {
	case old == nil:
		return q.doneSubscription(http.StatusCreated, n.CreateSubscription(q.to.entity, config))
	case same(old, d):
		return q.doneSubscription(http.StatusOK, nil)
	}
	return q.doneSubscription(http.StatusOK, n.UpdateSubscription(q.to.entity, config))
}

// doneSubscription answers with a subscription as it is now.
func (q *adminRequest) doneSubscription(status int, err error) (answer, error) {
	if err != nil {
		return answer{}, adminError(err)
	}
	info, err := q.server.namespace.SubscriptionInfo(q.to.entity, q.to.subscription)
	if err != nil {
		return answer{}, adminError(err)
	}
	return answer{status: status, document: q.describeSubscription(info)}, nil
}

func (q *adminRequest) describeSubscription(i broker.Info) atom.Entry {
	var d atom.Subscription
	if stored, ok := i.Description.(*atom.Subscription); ok {
		d = *stored
	}
	d.MessageCount, d.CountDetails = new(int64(i.Total())), counts(i)
	d.CreatedAt, d.UpdatedAt, d.AccessedAt = new(atom.Time(i.Created)), new(atom.Time(i.Updated)), new(atom.Time(i.Accessed))
	d.EntityAvailabilityStatus = new("Available")
	return q.entry(broker.SubscriptionPath(q.to.entity, i.Name), i.Name, i, &d)
}

// onRule answers about one rule of a subscription, or lists them.
func (q *adminRequest) onRule() (answer, error) {
	n, topic, subscription := q.server.namespace, q.to.entity, q.to.subscription
	switch {
	case q.Method == http.MethodGet && q.to.rule == "":
		return q.listRules()
	case q.Method == http.MethodGet:
		return q.doneRule(http.StatusOK, q.to.rule, nil)
	case q.Method == http.MethodPut:
		return q.putRule()
	case q.Method == http.MethodDelete && q.to.rule != "":
		if err := n.DeleteRule(topic, subscription, q.to.rule); err != nil {
			return answer{}, adminError(err)
		}
		return answer{status: http.StatusOK}, nil
	}
	return q.notAllowed()
}

func (q *adminRequest) listRules() (answer, error) {
	skip, top, err := q.paging()
	if err != nil {
		return answer{}, err
	}
	rules, err := q.server.namespace.Rules(q.to.entity, q.to.subscription)
	if err != nil {
		return answer{}, adminError(err)
	}
	rules = rules[min(skip, len(rules)):]
	rules = rules[:min(top, len(rules))]
	byName := make(map[string]broker.Rule, len(rules))
	infos := make([]broker.Info, len(rules))
	for i, r := range rules {
		byName[r.Name] = r
		infos[i].Name = r.Name
	}
	return q.feed("Rules", skip, top, infos, func(i broker.Info) atom.Entry { return q.describeRule(byName[i.Name]) }), nil
}

// putRule creates or updates a rule. A client that names none in the path means the one in the document.
func (q *adminRequest) putRule() (answer, error) {
	d := &atom.Rule{}
	if err := q.read(d); err != nil {
		return answer{}, err
	}
	name := q.to.rule
	if name == "" && d.Name != nil {
		name = *d.Name
	}
	x := q.server.examine()
	x.nestedName(name)
	d.Name = &name
	r := x.rule(name, d)
	if err := x.examined(); err != nil {
		return answer{}, err
	}
	n, topic, subscription := q.server.namespace, q.to.entity, q.to.subscription
	if q.update {
		return q.doneRule(http.StatusOK, name, n.UpdateRule(topic, subscription, r))
	}
	return q.doneRule(http.StatusCreated, name, n.CreateRule(topic, subscription, r))
}

// doneRule answers with a rule as it is now.
func (q *adminRequest) doneRule(status int, name string, err error) (answer, error) {
	if err != nil {
		return answer{}, adminError(err)
	}
	r, err := q.server.namespace.Rule(q.to.entity, q.to.subscription, name)
	if err != nil {
		return answer{}, adminError(err)
	}
	return answer{status: status, document: q.describeRule(r)}, nil
}

func (q *adminRequest) describeRule(r broker.Rule) atom.Entry {
	var d atom.Rule
	if stored, ok := r.Description.(*atom.Rule); ok {
		d = *stored
	}
	d.Name, d.CreatedAt = &r.Name, new(atom.Time(r.Created))
	path := broker.SubscriptionPath(q.to.entity, q.to.subscription) + "/Rules/" + r.Name
	return q.entry(path, r.Name, broker.Info{Created: r.Created, Updated: r.Created}, &d)
}
