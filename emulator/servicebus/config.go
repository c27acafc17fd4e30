package servicebus

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/jsonc"

	"oneeffect/emulator/servicebus/broker"
)

const (
	// DefaultKeyName is the name of the shared access key in the connection strings of every Service Bus emulator.
	DefaultKeyName = "RootManageSharedAccessKey"
	// DefaultKey is that key. It has all rights, and is no secret.
	DefaultKey = "SAS_KEY_VALUE"

	// maxConfig bounds a configuration file; the largest the official limits allow is far smaller.
	maxConfig = 4 << 20
)

// Config is what a server starts with: its entities, its keys and where it logs.
type Config struct {
	// Name is the namespace's name, kept for error texts.
	Name string
	// MessagingSKU is the tier of the service: Standard, Premium or AnyTier; empty means Standard.
	MessagingSKU string
	// Namespace describes the queues, topics and subscriptions.
	Namespace broker.Config
	// Keys maps a shared access key name to its key. Empty means the emulators' well-known one, with all rights.
	Keys map[string]Key
	// TokenCheck decides on a JSON web token for an audience and says when it ends. A token that it takes has all
	// rights. nil refuses every one of them.
	TokenCheck func(token, audience string) (expires time.Time, err error)
	// Pace is the least time between two deliveries on one link, for clients that rely on a broker not being faster than
	// a network; 0 is no pause.
	Pace time.Duration
	// Data is the folder that everything is kept in, beyond the life of the process; empty: nothing is kept. What is in
	// it goes before Namespace, except for entities that Namespace describes otherwise than it did when the folder was
	// last used.
	Data string
	// Log receives what an operator should see; nil discards it.
	Log *slog.Logger
	// Beyond says, each with its path, where the file that this was read from goes beyond the official emulator's
	// limits. That is allowed here; the official emulator would refuse the file.
	Beyond []string
}

// ReadConfig reads the official emulator's Config.json. Comments and trailing commas are allowed, as in the file
// that ships with it. Every mistake is reported at once, each with its path. Locks and times to live shorter than the
// official emulator's limits are accepted, because tests want them, and so is more of everything; Beyond says where.
func ReadConfig(r io.Reader) (Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > maxConfig {
		return Config{}, fmt.Errorf("read configuration: larger than %d bytes", maxConfig)
	}
	var document any
	if err := json.Unmarshal(jsonc.ToJSON(text), &document); err != nil {
		return Config{}, fmt.Errorf("parse configuration: %w", err)
	}
	var w walk
	c := w.config(node{value: document})
	w.checkForwarding()
	if len(w.mistakes) > 0 {
		return Config{}, fmt.Errorf("configuration: %w", errors.Join(w.mistakes...))
	}
	c.Beyond = w.beyond
	return c, nil
}

// config reads the whole document.
func (w *walk) config(root node) Config {
	var c Config
	w.members(root, members{"UserConfig": func(n node) {
		w.members(n, members{
			"Namespaces": func(n node) {
				list := w.list(n, 1)
				if len(list) != 1 {
					w.mistake(n, "must hold exactly one namespace, holds %d", len(list))
				}
				for _, n := range list {
					w.namespace(n, &c)
				}
			},
			"Logging": func(n node) {
				w.members(n, members{"Type": func(n node) {
					w.oneOf(n, "File", "Console", "File,Console", "Console,File")
				}}, "Type")
			},
		}, "Namespaces", "Logging")
	}}, "UserConfig")
	return c
}

func (w *walk) namespace(n node, c *Config) {
	// One name space for queues and topics, as in the service: names are compared without case.
	w.entities = make(map[string]string)
	w.members(n, members{
		"Name": func(n node) {
			if c.Name = w.name(n); c.Name != officialName {
				w.exceeds(n, "is %q; the official emulator knows only %s", c.Name, officialName)
			}
		},
		"Queues": func(n node) {
			for _, n := range w.list(n, officialEntities) {
				q := w.queue(n)
				w.unique(n, w.entities, q.Name)
				c.Namespace.Queues = append(c.Namespace.Queues, q)
			}
		},
		"Topics": func(n node) {
			for _, n := range w.list(n, officialEntities) {
				t := w.topic(n)
				w.unique(n, w.entities, t.Name)
				c.Namespace.Topics = append(c.Namespace.Topics, t)
			}
		},
	}, "Name", "Queues", "Topics")
	queues, topics := len(c.Namespace.Queues), len(c.Namespace.Topics)
	if max(queues, topics) <= officialEntities && queues+topics > officialEntities {
		w.exceeds(n, "has %d queues and topics; the official emulator takes at most %d together", queues+topics, officialEntities)
	}
}

func (w *walk) queue(n node) broker.QueueConfig {
	q := broker.QueueConfig{
		LockDuration:    defaultLock,
		MaxDelivery:     defaultMaxDelivery,
		TimeToLive:      defaultTimeToLive,
		DuplicateWindow: defaultWindow,
	}
	w.members(n, members{
		"Name": func(n node) { q.Name = w.name(n) },
		"Properties": func(n node) {
			p := w.receiving(receiving{
				&q.LockDuration, &q.MaxDelivery, &q.TimeToLive, &q.DeadLetterExpired, &q.RequiresSession, &q.ForwardTo, &q.ForwardDeadLettersTo,
			})
			w.detecting(p, &q.DetectDuplicates, &q.DuplicateWindow)
			w.members(n, p)
			w.notBoth(n, q.RequiresSession, q.ForwardTo)
		},
	}, "Name")
	return q
}

func (w *walk) topic(n node) broker.TopicConfig {
	t := broker.TopicConfig{TimeToLive: defaultTimeToLive, DuplicateWindow: defaultWindow}
	w.members(n, members{
		"Name": func(n node) { t.Name = w.name(n) },
		"Properties": func(n node) {
			p := members{"DefaultMessageTimeToLive": func(n node) { t.TimeToLive = w.within(n, timesToLive) }}
			w.detecting(p, &t.DetectDuplicates, &t.DuplicateWindow)
			w.members(n, p)
		},
		"Subscriptions": func(n node) {
			taken := make(map[string]string)
			subscriptions := w.list(n, officialSubscriptions)
			if len(subscriptions) == 0 {
				w.exceeds(n, "has no element; the official emulator wants at least one")
			}
			for _, n := range subscriptions {
				s := w.subscription(n)
				w.unique(n, taken, s.Name)
				t.Subscriptions = append(t.Subscriptions, s)
			}
		},
	}, "Name", "Subscriptions")
	return t
}

func (w *walk) subscription(n node) broker.SubscriptionConfig {
	s := broker.SubscriptionConfig{
		LockDuration:          defaultLock,
		MaxDelivery:           defaultMaxDelivery,
		TimeToLive:            defaultTimeToLive,
		DeadLetterUnevaluated: true, // as the service does if it is not told otherwise; the file has no word for it
	}
	w.members(n, members{
		"Name": func(n node) { s.Name = w.name(n) },
		"Properties": func(n node) {
			w.members(n, w.receiving(receiving{
				&s.LockDuration, &s.MaxDelivery, &s.TimeToLive, &s.DeadLetterExpired, &s.RequiresSession, &s.ForwardTo, &s.ForwardDeadLettersTo,
			}))
			w.notBoth(n, s.RequiresSession, s.ForwardTo)
		},
		"Rules": func(n node) {
			taken := make(map[string]string)
			for _, n := range w.list(n, officialRules) {
				r := w.rule(n)
				w.unique(n, taken, r.Name)
				s.Rules = append(s.Rules, r)
			}
		},
	}, "Name")
	return s
}
