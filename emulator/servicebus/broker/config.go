package broker

import (
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

	// MaxMessageID is the longest MessageID, in characters.
	MaxMessageID = 128
)

// Config describes a namespace. Names are unique without regard to case.
type Config struct {
	Queues []QueueConfig
	Topics []TopicConfig
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
}

// TopicConfig describes a topic and its subscriptions.
type TopicConfig struct {
	Name             string
	TimeToLive       time.Duration
	DetectDuplicates bool
	DuplicateWindow  time.Duration
	Subscriptions    []SubscriptionConfig
}

// SubscriptionConfig describes a subscription. Its one rule is $Default, which matches every message.
type SubscriptionConfig struct {
	Name              string
	LockDuration      time.Duration
	MaxDelivery       int
	TimeToLive        time.Duration
	DeadLetterExpired bool
}

func (s SubscriptionConfig) queue(path string) QueueConfig {
	return QueueConfig{
		Name:              path,
		LockDuration:      s.LockDuration,
		MaxDelivery:       s.MaxDelivery,
		TimeToLive:        s.TimeToLive,
		DeadLetterExpired: s.DeadLetterExpired,
	}
}

func (t TopicConfig) inlet() QueueConfig {
	return QueueConfig{
		Name:             t.Name,
		TimeToLive:       t.TimeToLive,
		DetectDuplicates: t.DetectDuplicates,
		DuplicateWindow:  t.DuplicateWindow,
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
	return c
}
