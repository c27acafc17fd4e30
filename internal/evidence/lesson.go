package evidence

// Case is one decisive case of a probe: what is sent, and what must come of it. The
// probes take their fixtures from here, and a file is held to them (V6).
type Case struct {
	Probe    int
	Name     string // of the probe
	Case     string
	Sense    Sense
	Section  int // of the lesson
	Expected Class

	EventKey   string
	Entity     string
	Version    int64
	Deliveries []string // the transport's ids, in their order
	Delta      int64    // of a stock
	Before     int64    // the stock before the first attempt, and
	After      int64    // after the last
}

// The fixtures of the lesson, sections 3 to 11 and 15.
const (
	SKU          = "sku-42"
	Reservation  = "R-1001"
	EventKey     = "inventory:" + SKU + ":reservation:" + Reservation
	CountKey     = "inventory:" + SKU + ":count:9"
	Opening      = 100
	OpenedAt     = 9
	LateID       = "R-1000"
	LateKey      = "inventory:" + SKU + ":reservation:" + LateID
	Source4401   = "lesson"
	Resource     = "customer-7"
	RequestID    = "req-4401"
	LaterRequest = "req-4402"
)

// The names of the probes.
const (
	Baseline    = "baseline_first_delivery"
	Redelivery  = "duplicate_redelivery_new_transport_id"
	CrashWindow = "non_atomic_crash_window"
	StaleLower  = "stale_lower_version"
	NoRisk      = "missing_residual_risk"
	Webhook     = "webhook_retry_transfer"
)

// The cases of probes that have more than one.
const (
	TheCase         = "the only case"
	BrokenVariant   = "effect first, then killed"
	AtomicRepair    = "the same kill, receipt and effect in one batch"
	FirstAttempt    = "first attempt"
	RetriedAttempt  = "retry under another transport id"
	LowerUnderNewID = "lower version under a new request id"
)

// Cases are all cases of the six probes, in the order in which they run.
func Cases() []Case {
	const webhookEntity = Source4401 + ":" + Resource
	stock := Case{EventKey: EventKey, Entity: SKU, Version: 10, Delta: -3, Case: TheCase}
	first := stock
	first.Probe, first.Name, first.Sense, first.Section, first.Expected = 1, Baseline, Positive, 7, Applied
	first.Deliveries, first.Before, first.After = []string{"delivery-A"}, Opening, 97
	again := stock
	again.Probe, again.Name, again.Sense, again.Section, again.Expected = 2, Redelivery, Negative, 8, Duplicate
	again.Deliveries, again.Before, again.After = []string{"delivery-B"}, 97, 97
	broken := stock
	broken.Probe, broken.Name, broken.Case, broken.Sense, broken.Section, broken.Expected = 3, CrashWindow, BrokenVariant, Negative, 9, NonAtomic
	broken.Deliveries, broken.Before, broken.After = []string{"delivery-A", "delivery-A"}, Opening, 94
	repair := stock
	repair.Probe, repair.Name, repair.Case, repair.Sense, repair.Section, repair.Expected = 3, CrashWindow, AtomicRepair, Positive, 5, Duplicate
	repair.Deliveries, repair.Before, repair.After = []string{"delivery-A", "delivery-A"}, Opening, 97
	late := stock
	late.Probe, late.Name, late.Sense, late.Section, late.Expected = 4, StaleLower, Negative, 10, Stale
	late.EventKey, late.Version, late.Delta, late.Deliveries, late.Before, late.After = LateKey, 9, -5, []string{"delivery-C"}, 97, 97
	incomplete := stock
	incomplete.Probe, incomplete.Name, incomplete.Sense, incomplete.Section, incomplete.Expected = 5, NoRisk, Negative, 11, Incomplete
	incomplete.Deliveries = []string{"delivery-A"}
	hook := Case{Probe: 6, Name: Webhook, Section: 15, Entity: webhookEntity, Sense: ChangedContext, EventKey: "webhook:" + webhookEntity + ":" + RequestID, Version: 7}
	attempt := hook
	attempt.Case, attempt.Expected, attempt.Deliveries = FirstAttempt, Applied, []string{"attempt-1"}
	retry := hook
	retry.Case, retry.Expected, retry.Deliveries = RetriedAttempt, Duplicate, []string{"attempt-2"}
	lower := hook
	lower.EventKey, lower.Version = "webhook:"+webhookEntity+":"+LaterRequest, 6
	lower.Case, lower.Expected, lower.Deliveries = LowerUnderNewID, Stale, []string{"attempt-3"}
	return []Case{first, again, broken, repair, late, incomplete, attempt, retry, lower}
}

// Sources are the pages that the claims about vendors rest on (sections 13 and 17).
func Sources() []Source {
	const checked, reviewBy = Date("2026-09-16"), Date("2026-12-31")
	return []Source{
		{
			Title: "Event-driven architecture style", Locator: "https://learn.microsoft.com/azure/architecture/guide/architecture-styles/event-driven",
			Supports:     "Producers, channel and consumers are decoupled; delivery, order and eventual consistency are then the design's to take care of.",
			DoesNotProve: "That any channel delivers once, or in order, or that this projection would notice if it did not.",
			Checked:      checked, ReviewBy: reviewBy,
		},
		{
			Title: "Idempotent Consumer pattern", Locator: "https://learn.microsoft.com/azure/architecture/patterns/idempotent-consumer",
			Supports:     "A consumer that meets duplicates needs an identifier that stays the same, and a durable record of what it has processed.",
			DoesNotProve: "That this consumer has chosen the right identifier, or writes its record and its effect together: the probes look at that.",
			Checked:      checked, ReviewBy: reviewBy,
		},
		{
			Title: "Retry pattern", Locator: "https://learn.microsoft.com/azure/architecture/patterns/retry",
			Supports:     "What is retried must be idempotent, or a retry repeats its effect.",
			DoesNotProve: "That retrying makes anything idempotent, or that any number of retries ends a crash window.",
			Checked:      checked, ReviewBy: reviewBy,
		},
	}
}

// Part is one of the things that a reader must be able to point at (section 1).
type Part struct{ Name, What string }

// Parts are what is under test, along its chain (section 2).
func Parts() []Part {
	return []Part{
		{"Event producer", "taskctl, in the place of whoever accepts reservations; for the webhook, a sender that signs each attempt"},
		{"Event channel", "a Service Bus topic with a subscription; for the webhook, HTTP on this machine's loopback"},
		{"Event consumer", "the projector: the receiver, the guard and the store's adapter that are deployed, wired in this program"},
		{"Business entity", "the sku " + SKU + "; for the webhook, the resource " + Resource},
		{"Stable receipt key", "the event's own key, " + EventKey + "; for the webhook, source, resource and " + RequestID},
		{"Version", "of the entity, given by its producer"},
		{"Owned side effect", "the projection's stock, or its copy of the resource; nothing outside of its partition"},
		{"Atomic boundary", "receipt and effect in one batch of one partition; then the acknowledgement, last"},
		{"Duplicate rule", "an event whose key has a receipt changes nothing, whatever its delivery is called"},
		{"Ordering rule", "an event with a new key changes something only if its version is greater than the one that was accepted"},
		{"Residual risk", "stands in every record, and at the end of this page"},
	}
}

// Forbidden is a conclusion that nobody may draw, and the probes that contradict it
// (section 14).
type Forbidden struct {
	Conclusion string
	Probes     []string
	Because    string
}

// ForbiddenConclusions are all of them.
func ForbiddenConclusions() []Forbidden {
	return []Forbidden{
		{"An event-driven design guarantees order, or side effects that happen once.", []string{StaleLower, CrashWindow},
			"The channel delivered version 9 after version 10, and delivered one message twice: the version rule and the atomic pair answered that, not the channel."},
		{"If the broker suppresses duplicates, the consumer need not be idempotent.", []string{Redelivery, CrashWindow},
			"The same event came under another transport id, which no suppression by transport id can see; and after the kill the broker itself delivered one message again, as it must."},
		{"The id of a delivery is the right idempotency key.", []string{Redelivery, Webhook},
			"One event had two delivery ids. By them it would have been two events."},
		{"Deduplication takes care of stale events and of order.", []string{StaleLower, Webhook},
			"The late event had a key that nobody had seen: it was no duplicate. Only its version told."},
		{"A green run on one machine shows that production is reliable.", []string{NoRisk, CrashWindow},
			"A record that does not say what remains unproven is refused, however green its run; and the broken variant is green as well until somebody kills it at the right moment."},
	}
}
