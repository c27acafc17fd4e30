package servicebus

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
)

// The tiers of the service. Basic is not emulated.
const (
	Standard = "Standard"
	Premium  = "Premium"
	// AnyTier takes what either tier takes, and calls itself Standard: one server in the place of two namespaces.
	AnyTier = "Any"
)

// Tiers are the tiers that a server can be of.
func Tiers() []string { return []string{Standard, Premium, AnyTier} }

// What the management API allows. A configuration may go below the least, for tests' sake.
const (
	minLock           = 5 * time.Second
	maxLock           = 5 * time.Minute
	minTimeToLive     = time.Second
	minWindow         = 20 * time.Second
	maxWindow         = 7 * 24 * time.Hour
	minIdle           = 5 * time.Minute
	maxMaxDelivery    = 2000
	maxUserMetadata   = 1024
	maxKeys           = 12
	partitions        = 16
	standardKilobytes = 256
	premiumKilobytes  = 1024
	maxKilobytes      = 102_400
	maxNested         = 50 // characters in the name of a subscription or a rule
)

// sizes are the megabytes that a queue or topic may be given, by tier.
var sizes = map[string][]int64{
	Standard: {1024, 2048, 3072, 4096, 5120},
	Premium:  {1024, 2048, 3072, 4096, 5120, 10240, 20480, 40960, 81920},
	AnyTier:  {1024, 2048, 3072, 4096, 5120, 10240, 20480, 40960, 81920},
}

// examination reads the properties that a client has sent, fills in the service's defaults, and collects what is wrong.
type examination struct {
	tier     string
	kept     map[string]*string // durations that the entity may keep although they are shorter than the service's least
	mistakes []error
}

func (x *examination) mistake(format string, args ...any) {
	x.mistakes = append(x.mistakes, fmt.Errorf(format, args...))
}

// fill gives a property that was left out its default.
func fill[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// duration checks a duration, filling in a default. It is answered as it was given.
func (x *examination) duration(name string, p **string, byDefault string, least, most time.Duration) time.Duration {
	fill(p, byDefault)
	d, err := parseDuration(**p)
	switch {
	case err != nil:
		x.mistake("%s %w", name, err)
	case d > most:
		x.mistake("%s must be at most %s, is %s", name, formatDuration(most), **p)
	case d < least && (x.kept[name] == nil || *x.kept[name] != **p):
		x.mistake("%s must be at least %s, is %s", name, formatDuration(least), **p)
	}
	return d
}

func (x *examination) status(p **string, allowed ...broker.Status) broker.Status {
	fill(p, string(broker.Active))
	s := broker.Status(**p)
	if !slices.Contains(allowed, s) {
		x.mistake("Status must be one of %v, is %q", allowed, s)
	}
	return s
}

func (x *examination) maxDelivery(p **int32) int {
	fill(p, 10)
	if **p < 1 || **p > maxMaxDelivery {
		x.mistake("MaxDeliveryCount must be from 1 to %d, is %d", maxMaxDelivery, **p)
	}
	return int(**p)
}

func (x *examination) metadata(p *string) {
	if p != nil && len([]rune(*p)) > maxUserMetadata {
		x.mistake("UserMetadata must have at most %d characters, has %d", maxUserMetadata, len([]rune(*p)))
	}
}

// size checks the largest size of an entity. A partitioned one has it once for each of its partitions, and says so ever
// after.
func (x *examination) size(p **int64, partitioned bool) int64 {
	fill(p, 1024)
	allowed := sizes[x.tier]
	switch {
	case partitioned && slices.Contains(allowed, **p):
		times := **p * partitions
		*p = &times
	case partitioned && **p%partitions == 0 && slices.Contains(allowed, **p/partitions):
	case partitioned || !slices.Contains(allowed, **p):
		x.mistake("MaxSizeInMegabytes must be one of %v, is %d", allowed, **p)
	}
	return **p << 20
}

// messageSize checks the largest size of a message, which Premium alone can change.
func (x *examination) messageSize(p **int64) int {
	if x.tier == Premium {
		fill(p, premiumKilobytes)
	}
	fill(p, standardKilobytes)
	switch size := **p; {
	case size == standardKilobytes && x.tier != Premium:
	case x.tier == Standard:
		x.mistake("MaxMessageSizeInKilobytes can be set in the Premium tier only, is %d", size)
	case size < premiumKilobytes || size > maxKilobytes:
		x.mistake("MaxMessageSizeInKilobytes must be from %d to %d, is %d", premiumKilobytes, maxKilobytes, size)
	}
	return int(**p) << 10
}

// largestMessage is how large the messages of any entity of the server may be.
func (s *Server) largestMessage() uint64 {
	if s.tier == Standard {
		return standardKilobytes << 10
	}
	return maxKilobytes << 10
}

func (x *examination) partitioning(p **bool) bool {
	fill(p, false)
	if **p && x.tier == Premium {
		x.mistake("EnablePartitioning cannot be set in the Premium tier")
	}
	return **p
}

// keys checks an entity's authorization rules. They are kept and shown.
func (x *examination) keys(rules *atom.AuthorizationRules) {
	if rules == nil {
		return
	}
	if len(rules.Rules) > maxKeys {
		x.mistake("at most %d authorization rules are allowed, got %d", maxKeys, len(rules.Rules))
	}
	seen := make(map[string]bool)
	for _, r := range rules.Rules {
		if r.KeyName == nil || *r.KeyName == "" {
			x.mistake("an authorization rule lacks its KeyName")
			continue
		}
		if seen[*r.KeyName] {
			x.mistake("two authorization rules are named %q", *r.KeyName)
		}
		seen[*r.KeyName] = true
		for _, right := range r.Rights {
			if !slices.Contains([]string{"Listen", "Send", "Manage"}, right) {
				x.mistake("authorization rule %q has the right %q; there are Listen, Send and Manage", *r.KeyName, right)
			}
		}
	}
}

// forward reads the entity that messages go on to: a name, or an address with a name at its end.
func (x *examination) forward(property string, p **string) string {
	if *p == nil {
		return ""
	}
	if **p == "" {
		*p = nil
		return ""
	}
	target := **p
	if strings.Contains(target, "://") {
		address, err := url.Parse(target)
		if err != nil {
			x.mistake("%s is no address: %w", property, err)
			return ""
		}
		target = address.Path
	}
	return strings.Trim(target, "/")
}

// queue completes a description and returns what the engine obeys of it.
func (x *examination) queue(name string, d *atom.Queue) broker.QueueConfig {
	fill(&d.RequiresDuplicateDetection, false)
	fill(&d.RequiresSession, false)
	fill(&d.DeadLetteringOnMessageExpiration, false)
	fill(&d.EnableBatchedOperations, true)
	fill(&d.IsAnonymousAccessible, false)
	fill(&d.SupportOrdering, true)
	fill(&d.EnableExpress, false)
	x.metadata(d.UserMetadata)
	x.keys(d.AuthorizationRules)
	partitioned := x.partitioning(&d.EnablePartitioning)
	return broker.QueueConfig{
		Name:                 name,
		LockDuration:         x.duration("LockDuration", &d.LockDuration, "PT1M", minLock, maxLock),
		MaxDelivery:          x.maxDelivery(&d.MaxDeliveryCount),
		TimeToLive:           x.duration("DefaultMessageTimeToLive", &d.DefaultMessageTimeToLive, maxDuration, minTimeToLive, broker.Forever),
		DeadLetterExpired:    *d.DeadLetteringOnMessageExpiration,
		DetectDuplicates:     *d.RequiresDuplicateDetection,
		DuplicateWindow:      x.duration("DuplicateDetectionHistoryTimeWindow", &d.DuplicateDetectionHistoryTimeWindow, "PT10M", minWindow, maxWindow),
		RequiresSession:      *d.RequiresSession,
		ForwardTo:            x.forward("ForwardTo", &d.ForwardTo),
		ForwardDeadLettersTo: x.forward("ForwardDeadLetteredMessagesTo", &d.ForwardDeadLetteredMessagesTo),
		AutoDelete:           x.duration("AutoDeleteOnIdle", &d.AutoDeleteOnIdle, maxDuration, minIdle, broker.Forever),
		Status:               x.status(&d.Status, broker.Active, broker.Disabled, broker.SendDisabled, broker.ReceiveDisabled),
		MaxMessage:           x.messageSize(&d.MaxMessageSizeInKilobytes),
		MaxSize:              x.size(&d.MaxSizeInMegabytes, partitioned),
		Description:          d,
	}
}

// topic completes a description and returns what the engine obeys of it.
func (x *examination) topic(name string, d *atom.Topic) broker.TopicConfig {
	fill(&d.RequiresDuplicateDetection, false)
	fill(&d.EnableBatchedOperations, true)
	fill(&d.FilteringMessagesBeforePublishing, false)
	fill(&d.IsAnonymousAccessible, false)
	fill(&d.SupportOrdering, true)
	fill(&d.EnableSubscriptionPartitioning, false)
	fill(&d.EnableExpress, false)
	x.metadata(d.UserMetadata)
	x.keys(d.AuthorizationRules)
	partitioned := x.partitioning(&d.EnablePartitioning)
	return broker.TopicConfig{
		Name:             name,
		TimeToLive:       x.duration("DefaultMessageTimeToLive", &d.DefaultMessageTimeToLive, maxDuration, minTimeToLive, broker.Forever),
		DetectDuplicates: *d.RequiresDuplicateDetection,
		DuplicateWindow:  x.duration("DuplicateDetectionHistoryTimeWindow", &d.DuplicateDetectionHistoryTimeWindow, "PT10M", minWindow, maxWindow),
		AutoDelete:       x.duration("AutoDeleteOnIdle", &d.AutoDeleteOnIdle, maxDuration, minIdle, broker.Forever),
		Status:           x.status(&d.Status, broker.Active, broker.Disabled, broker.SendDisabled),
		MaxMessage:       x.messageSize(&d.MaxMessageSizeInKilobytes),
		MaxSize:          x.size(&d.MaxSizeInMegabytes, partitioned),
		Description:      d,
	}
}

// subscription completes a description and returns what the engine obeys of it.
func (x *examination) subscription(name string, d *atom.Subscription) broker.SubscriptionConfig {
	fill(&d.RequiresSession, false)
	fill(&d.DeadLetteringOnMessageExpiration, false)
	fill(&d.DeadLetteringOnFilterEvaluationExceptions, true)
	fill(&d.EnableBatchedOperations, true)
	x.metadata(d.UserMetadata)
	return broker.SubscriptionConfig{
		Name:                  name,
		LockDuration:          x.duration("LockDuration", &d.LockDuration, "PT1M", minLock, maxLock),
		MaxDelivery:           x.maxDelivery(&d.MaxDeliveryCount),
		TimeToLive:            x.duration("DefaultMessageTimeToLive", &d.DefaultMessageTimeToLive, maxDuration, minTimeToLive, broker.Forever),
		DeadLetterExpired:     *d.DeadLetteringOnMessageExpiration,
		DeadLetterUnevaluated: *d.DeadLetteringOnFilterEvaluationExceptions,
		RequiresSession:       *d.RequiresSession,
		ForwardTo:             x.forward("ForwardTo", &d.ForwardTo),
		ForwardDeadLettersTo:  x.forward("ForwardDeadLetteredMessagesTo", &d.ForwardDeadLetteredMessagesTo),
		AutoDelete:            x.duration("AutoDeleteOnIdle", &d.AutoDeleteOnIdle, maxDuration, minIdle, broker.Forever),
		Status:                x.status(&d.Status, broker.Active, broker.Disabled, broker.SendDisabled, broker.ReceiveDisabled),
		Description:           d,
	}
}

// unchangeable checks that an update leaves alone what is for life.
func (x *examination) unchangeable(kind, property string, old, given *bool) {
	if *old != *given {
		x.mistake("The value for the %s property of an existing %s cannot be changed", property, kind)
	}
}

func (x *examination) queueUpdate(old, given *atom.Queue) {
	x.unchangeable("Queue", "RequiresSession", old.RequiresSession, given.RequiresSession)
	x.unchangeable("Queue", "RequiresDuplicateDetection", old.RequiresDuplicateDetection, given.RequiresDuplicateDetection)
	if *old.EnablePartitioning != *given.EnablePartitioning {
		x.mistake("Partitioning cannot be changed for Queue. ")
	}
}

func (x *examination) topicUpdate(old, given *atom.Topic) {
	x.unchangeable("Topic", "RequiresDuplicateDetection", old.RequiresDuplicateDetection, given.RequiresDuplicateDetection)
	if *old.EnablePartitioning != *given.EnablePartitioning {
		x.mistake("Partitioning cannot be changed for Topic. ")
	}
}

func (x *examination) subscriptionUpdate(old, given *atom.Subscription) {
	x.unchangeable("Subscription", "RequiresSession", old.RequiresSession, given.RequiresSession)
}

// same reports whether an update changes nothing. Such an update ends no links.
func same(old, given any) bool { return reflect.DeepEqual(old, given) }

// entityName is the official emulator's rule, and nestedName the service's for subscriptions and rules.
var (
	entityName = regexp.MustCompile(`^[A-Za-z0-9]$|^[A-Za-z0-9][\w\-./]*[A-Za-z0-9]$`)
	nestedName = regexp.MustCompile(`^[\w\-.$]+$`)
)

// maxName is the longest name of a queue or topic, in characters.
const maxName = 260

func (x *examination) entityName(name string) {
	if !entityName.MatchString(name) || len(name) > maxName {
		x.mistake("the name must begin and end with a letter or digit, hold only letters, digits and _ - . / and have at most %d characters, is %q", maxName, name)
	}
}

func (x *examination) nestedName(name string) {
	if !nestedName.MatchString(name) || len(name) > maxNested {
		x.mistake("the name must hold only letters, digits and _ - . and have at most %d characters, is %q", maxNested, name)
	}
}
