package broker

import "time"

// DefaultRule is the name of the rule that a subscription has from its beginning, unless it is given others.
const DefaultRule = "$Default"

// Rule gives a subscription copies of its topic's messages. Names are unique in a subscription, without regard to case.
type Rule struct {
	Name string
	// Apply returns the message as the subscription gets it, or nil if it gets none. A rule without Apply gives it
	// every message as it is. It must not change its argument, and may be called from many goroutines.
	Apply func(*Message) (*Message, error)
	// Acts says that Apply changes what it returns: such a rule gives a copy of its own. All matching rules that do
	// not act give one copy together.
	Acts bool
	// Description is what a dialect keeps with the rule. The engine never reads it.
	Description any
	// Created is set by the engine.
	Created time.Time
}
