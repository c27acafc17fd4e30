package sim

import "slices"

// theme is what the faults of a history are chosen from. Most histories have all of
// them. Some concentrate on one part of the story: what takes two faults in the same
// place would hardly ever come up otherwise.
type theme struct {
	kinds  []kind
	others []string // what is no rule
	claims bool     // the store fails where claims are written
}

var (
	anything = theme{kinds: faultKinds, others: otherKinds}

	// around calls: the claim before and after them, the call, and whoever makes it
	calling = theme{
		claims: true,
		kinds: slices.Concat(
			slices.DeleteFunc(slices.Clone(faultKinds), func(k kind) bool {
				return k.rule.Match.Service != "cosmos" || !slices.Contains(k.ops, "replace")
			}),
			slices.DeleteFunc(slices.Clone(faultKinds), func(k kind) bool { return k.rule.Match.Service != "downstream" }),
		),
		others: []string{kills, killsAt, killsAt, killsLate, pauses, pauses, jumpsAtCall, jumpsAtCall, cancelsTaken, givesUpHeld},
	}

	// around messages: what is sent and not taken, taken and not answered, and settled
	sending = theme{
		kinds: slices.DeleteFunc(slices.Clone(faultKinds), func(k kind) bool {
			ofMessages := len(k.ops) > 0 || k.rule.Match.Operation == "send" || k.rule.Match.Operation == "renew-lock" // those that have ops settle
			return k.rule.Match.Service != "servicebus" || !ofMessages
		}),
		others: []string{killsAt, killsAt, killsLate, pauses, terminates, purges, givesUp, buries, changes, disables, givesUpHeld},
	}

	themes = []theme{anything, anything, anything, calling, sending}
)
