package broker

import (
	"cmp"
	"math"
	"time"
)

// What a zero field of a configuration means: the service's own defaults.
const (
	defaultLock        = time.Minute
	defaultMaxDelivery = 10
	defaultWindow      = 10 * time.Minute

	// Forever is a time to live that never ends.
	Forever = time.Duration(math.MaxInt64)

	// MaxMessage is the Standard tier's limit on one message or one batch, in bytes.
	MaxMessage = 256 << 10

	// MaxEntity is the Standard tier's largest entity, in bytes of messages: a queue with its dead letters, or a
	// topic with all its subscriptions.
	MaxEntity = 5 << 30

	// MaxHeader is the largest that a message's properties may be together, in bytes.
	MaxHeader = 64 << 10

	// MaxMessageID is the longest MessageID, in characters.
	MaxMessageID = 128
)

// Config describes a namespace. Names are unique without regard to case.
type Config struct {
	Queues []QueueConfig
	Topics []TopicConfig
	// Journal keeps everything beyond the life of the process; nil: nothing is kept.
	Journal Journal
}

// QueueConfig describes a queue.
type QueueConfig struct {
	Name              string
	LockDuration      time.Duration // 0: a minute
	MaxDelivery       int           // 0: 10
	TimeToLive        time.Duration // of messages without one, and the most any may have; 0: for ever
	DeadLetterExpired bool          // expired messages become dead letters instead of vanishing
	DetectDuplicates  bool
	DuplicateWindow   time.Duration // 0: ten minutes

	RequiresSession      bool
	ForwardTo            string // path of a queue or topic; empty: messages stay
	ForwardDeadLettersTo string // path of a queue or topic; empty: dead letters stay

	AutoDelete time.Duration // deleted when nobody has used it for so long; 0: never
	Status     Status
	MaxMessage int   // bytes of one message or batch; 0: MaxMessage
	MaxSize    int64 // bytes of all messages; 0: MaxEntity

	// Description is what a dialect keeps with the entity. The engine never reads it.
	Description any
}

// TopicConfig describes a topic and its subscriptions.
type TopicConfig struct {
	Name             string
	TimeToLive       time.Duration
	DetectDuplicates bool
	DuplicateWindow  time.Duration
	AutoDelete       time.Duration
	Status           Status
	MaxMessage       int
	MaxSize          int64
	Description      any
	Subscriptions    []SubscriptionConfig
}

// SubscriptionConfig describes a subscription.
type SubscriptionConfig struct {
	Name                 string
	LockDuration         time.Duration
	MaxDelivery          int
	TimeToLive           time.Duration
	DeadLetterExpired    bool
	RequiresSession      bool
	ForwardTo            string
	ForwardDeadLettersTo string
	AutoDelete           time.Duration
	Status               Status
	Description          any

	// Rules decide which messages come here. Nil means one rule, $Default, which matches every message.
	Rules []Rule
	// DeadLetterUnevaluated makes a dead letter of a message that a rule cannot be evaluated for, instead of ignoring
	// it.
	DeadLetterUnevaluated bool
}

// Status says what clients may do with an entity. The zero value means Active.
type Status string

// The statuses an entity may be given.
const (
	Active          Status = "Active"
	Disabled        Status = "Disabled"
	SendDisabled    Status = "SendDisabled"
	ReceiveDisabled Status = "ReceiveDisabled"
)

func (s Status) takesSends() bool    { return s != Disabled && s != SendDisabled }
func (s Status) takesReceives() bool { return s != Disabled && s != ReceiveDisabled }

func (s SubscriptionConfig) queue(path string) QueueConfig {
	return QueueConfig{
		Name:                 path,
		LockDuration:         s.LockDuration,
		MaxDelivery:          s.MaxDelivery,
		TimeToLive:           s.TimeToLive,
		DeadLetterExpired:    s.DeadLetterExpired,
		RequiresSession:      s.RequiresSession,
		ForwardTo:            s.ForwardTo,
		ForwardDeadLettersTo: s.ForwardDeadLettersTo,
		AutoDelete:           s.AutoDelete,
		Status:               s.Status,
		Description:          s.Description,
	}
}

func (t TopicConfig) inlet() QueueConfig {
	return QueueConfig{
		Name:             t.Name,
		TimeToLive:       t.TimeToLive,
		DetectDuplicates: t.DetectDuplicates,
		DuplicateWindow:  t.DuplicateWindow,
		AutoDelete:       t.AutoDelete,
		Status:           t.Status,
		MaxMessage:       t.MaxMessage,
		MaxSize:          t.MaxSize,
		Description:      t.Description,
	}
}

// withDefaults fills in what was left out.
func (c QueueConfig) withDefaults() QueueConfig {
	if c.LockDuration == 0 {
		c.LockDuration = defaultLock
	}
	if c.MaxDelivery == 0 {
		c.MaxDelivery = defaultMaxDelivery
	}
	if c.TimeToLive == 0 {
		c.TimeToLive = Forever
	}
	if c.DuplicateWindow == 0 {
		c.DuplicateWindow = defaultWindow
	}
	c.AutoDelete = cmp.Or(c.AutoDelete, Forever)
	c.Status = cmp.Or(c.Status, Active)
	c.MaxMessage = cmp.Or(c.MaxMessage, MaxMessage)
	c.MaxSize = cmp.Or(c.MaxSize, MaxEntity)
	return c
}
