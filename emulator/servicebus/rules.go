package servicebus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/rule"
)

// compatibilityLevel is the version of the SQL dialect that the service puts into every filter and action.
const compatibilityLevel = 20

// rule completes a rule's description and returns the rule itself. Without a description, it is the one that matches
// every message.
func (x *examination) rule(name string, d *atom.Rule) broker.Rule {
	if d == nil {
		d = &atom.Rule{}
	}
	if d.Name != nil {
		name = *d.Name
	}
	if d.Filter == nil {
		d.Filter = &atom.Filter{Type: atom.TrueFilter}
	}
	if d.Action == nil {
		d.Action = &atom.Action{Type: atom.EmptyAction}
	}
	filter, err := filterOf(d.Filter)
	if err != nil {
		x.mistake("the filter of rule %q: %w", name, err)
	}
	action, err := actionOf(d.Action)
	if err != nil {
		x.mistake("the action of rule %q: %w", name, err)
	}
	return broker.Rule{Name: name, Apply: apply(filter, action), Acts: action != nil, Description: d}
}

// apply makes of a filter and an action what the engine asks about every message.
func apply(filter rule.Filter, action *rule.Action) func(*broker.Message) (*broker.Message, error) {
	if _, always := filter.(rule.True); always && action == nil {
		return nil
	}
	return func(m *broker.Message) (*broker.Message, error) {
		c, err := newSubject(m)
		if err != nil {
			return nil, err
		}
		matches, err := filter.Match(c)
		if err != nil || !matches {
			return nil, err
		}
		if action == nil {
			return m, nil
		}
		if err := action.Apply(c); err != nil {
			return nil, err
		}
		return c.message()
	}
}

// filterOf reads a filter's description, and completes it as the service does.
func filterOf(d *atom.Filter) (rule.Filter, error) {
	switch d.Type {
	case atom.TrueFilter, atom.FalseFilter:
		d.SQLExpression, d.CompatibilityLevel = new("1=1"), new(int64(compatibilityLevel))
		if d.Type == atom.FalseFilter {
			d.SQLExpression = new("1=0")
			return rule.False{}, nil
		}
		return rule.True{}, nil
	case atom.SQLFilter:
		d.CompatibilityLevel = new(int64(compatibilityLevel))
		parameters, err := valuesOf(d.Parameters)
		if err != nil {
			return nil, err
		}
		if d.SQLExpression == nil {
			return nil, errors.New("the SqlExpression is missing")
		}
		return rule.ParseFilter(*d.SQLExpression, parameters)
	case atom.CorrelationFilter:
		return correlationOf(d)
	}
	return nil, fmt.Errorf("the type %q is not known", d.Type)
}

func correlationOf(d *atom.Filter) (rule.Filter, error) {
	user, err := valuesOf(d.Properties)
	if err != nil {
		return nil, err
	}
	f := rule.Correlation{System: make(map[string]string), User: user}
	for name, v := range map[string]*string{
		"ContentType": d.ContentType, "CorrelationId": d.CorrelationID, "Label": d.Label, "MessageId": d.MessageID,
		"ReplyTo": d.ReplyTo, "ReplyToSessionId": d.ReplyToSessionID, "SessionId": d.SessionID, "To": d.To,
	} {
		if v != nil {
			f.System[name] = *v
		}
	}
	if len(f.System)+len(f.User) == 0 {
		return nil, errors.New("a correlation filter needs at least one property to compare")
	}
	return f, nil
}

// actionOf reads an action's description, and completes it. There may be none.
func actionOf(d *atom.Action) (*rule.Action, error) {
	switch d.Type {
	case atom.EmptyAction:
		return nil, nil
	case atom.SQLAction:
	default:
		return nil, fmt.Errorf("the type %q is not known", d.Type)
	}
	d.CompatibilityLevel = new(int64(compatibilityLevel))
	parameters, err := valuesOf(d.Parameters)
	if err != nil {
		return nil, err
	}
	if d.SQLExpression == nil {
		return nil, errors.New("the SqlExpression is missing")
	}
	return rule.ParseAction(*d.SQLExpression, parameters)
}

// valuesOf reads the values of parameters, and of a correlation filter's properties.
func valuesOf(p *atom.Parameters) (map[string]any, error) {
	if p == nil {
		return nil, nil
	}
	values := make(map[string]any, len(p.List))
	var errs []error
	for _, v := range p.List {
		read, err := valueOf(v.Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("the value of %s: %w", v.Key, err))
		}
		values[v.Key] = read
	}
	return values, errors.Join(errs...)
}

// valueOf reads a value by its XML schema type.
func valueOf(v atom.Value) (any, error) {
	switch v.Type {
	case "string", "":
		return v.Text, nil
	case "boolean":
		return strconv.ParseBool(v.Text)
	case "int", "long", "short", "byte":
		return strconv.ParseInt(v.Text, 10, 64)
	case "unsignedInt", "unsignedShort", "unsignedByte", "unsignedLong":
		return strconv.ParseUint(v.Text, 10, 64)
	case "double", "float", "decimal":
		return strconv.ParseFloat(v.Text, 64)
	case "dateTime":
		return time.Parse(time.RFC3339Nano, v.Text)
	case "duration":
		return parseDuration(v.Text)
	case "guid":
		return parseGUID(v.Text)
	}
	return nil, fmt.Errorf("the type %q is not known", v.Type)
}

func parseGUID(s string) (rule.GUID, error) {
	var g rule.GUID
	digits := strings.ReplaceAll(s, "-", "")
	if len(digits) != 2*len(g) {
		return g, fmt.Errorf("%q is no GUID", s)
	}
	for i := range g {
		b, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			return g, fmt.Errorf("%q is no GUID: %w", s, err)
		}
		g[i] = byte(b)
	}
	return g, nil
}

// filterCounts counts the filters of a topic's subscriptions as the service does: whatever is no correlation filter is
// an SQL filter, $Default too.
func filterCounts(i broker.Info) (sql, correlation *int64) {
	sql, correlation = new(int64), new(int64)
	for _, s := range i.Subscriptions {
		for _, r := range s.Rules {
			if d, ok := r.Description.(*atom.Rule); ok && d.Filter.Type == atom.CorrelationFilter {
				*correlation++
			} else {
				*sql++
			}
		}
	}
	return sql, correlation
}

// described gives every entity of a configuration the description that the management API shows, and the size of a
// message that the tier gives those that name none. An entity that was described already keeps its own description.
func described(tier string, c broker.Config) broker.Config {
	c.Queues, c.Topics = slices.Clone(c.Queues), slices.Clone(c.Topics)
	for i := range c.Queues {
		q := &c.Queues[i]
		q.MaxMessage = cmp.Or(q.MaxMessage, tierMessage(tier))
		if q.Description == nil {
			q.Description = describeQueue(tier, *q)
		}
	}
	for i := range c.Topics {
		t := &c.Topics[i]
		t.MaxMessage = cmp.Or(t.MaxMessage, tierMessage(tier))
		if t.Description == nil {
			t.Description = describeTopic(tier, *t)
		}
		t.Subscriptions = slices.Clone(t.Subscriptions)
		for j := range t.Subscriptions {
			s := &t.Subscriptions[j]
			if s.Description == nil {
				s.Description = describeSubscription(tier, *s)
			}
			if s.Rules == nil {
				s.Rules = []broker.Rule{(&examination{tier: tier}).rule(broker.DefaultRule, nil)}
			}
		}
	}
	return c
}

// tierMessage is the largest message of an entity of which nothing is said; 0 leaves it to the engine.
func tierMessage(tier string) int {
	if tier == Premium {
		return premiumKilobytes << 10
	}
	return 0
}

// What a configuration leaves at zero stays out of a description, so that the examination fills in the default.

func writtenDuration(d time.Duration) *string {
	if d == 0 {
		return nil
	}
	return new(formatDuration(d))
}

func written[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func describeQueue(tier string, c broker.QueueConfig) *atom.Queue {
	d := &atom.Queue{
		LockDuration:                        writtenDuration(c.LockDuration),
		RequiresDuplicateDetection:          &c.DetectDuplicates,
		RequiresSession:                     &c.RequiresSession,
		DefaultMessageTimeToLive:            writtenDuration(c.TimeToLive),
		DeadLetteringOnMessageExpiration:    &c.DeadLetterExpired,
		DuplicateDetectionHistoryTimeWindow: writtenDuration(c.DuplicateWindow),
		MaxDeliveryCount:                    written(int32(c.MaxDelivery)),
		Status:                              written(string(c.Status)),
		ForwardTo:                           written(c.ForwardTo),
		ForwardDeadLetteredMessagesTo:       written(c.ForwardDeadLettersTo),
		AutoDeleteOnIdle:                    writtenDuration(c.AutoDelete),
		MaxMessageSizeInKilobytes:           written(int64(c.MaxMessage >> 10)),
	}
	(&examination{tier: tier}).queue(c.Name, d)
	return d
}

func describeTopic(tier string, c broker.TopicConfig) *atom.Topic {
	d := &atom.Topic{
		DefaultMessageTimeToLive:            writtenDuration(c.TimeToLive),
		RequiresDuplicateDetection:          &c.DetectDuplicates,
		DuplicateDetectionHistoryTimeWindow: writtenDuration(c.DuplicateWindow),
		Status:                              written(string(c.Status)),
		AutoDeleteOnIdle:                    writtenDuration(c.AutoDelete),
		MaxMessageSizeInKilobytes:           written(int64(c.MaxMessage >> 10)),
	}
	(&examination{tier: tier}).topic(c.Name, d)
	return d
}

func describeSubscription(tier string, c broker.SubscriptionConfig) *atom.Subscription {
	d := &atom.Subscription{
		LockDuration:                              writtenDuration(c.LockDuration),
		RequiresSession:                           &c.RequiresSession,
		DefaultMessageTimeToLive:                  writtenDuration(c.TimeToLive),
		DeadLetteringOnMessageExpiration:          &c.DeadLetterExpired,
		DeadLetteringOnFilterEvaluationExceptions: &c.DeadLetterUnevaluated,
		MaxDeliveryCount:                          written(int32(c.MaxDelivery)),
		Status:                                    written(string(c.Status)),
		ForwardTo:                                 written(c.ForwardTo),
		ForwardDeadLetteredMessagesTo:             written(c.ForwardDeadLettersTo),
		AutoDeleteOnIdle:                          writtenDuration(c.AutoDelete),
	}
	(&examination{tier: tier}).subscription(c.Name, d)
	return d
}
