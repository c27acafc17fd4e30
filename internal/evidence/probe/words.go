package probe

import "oneeffect/internal/evidence"

// The sources, by their place in evidence.Sources.
const (
	eventDriven = iota
	idempotentConsumer
	retry
)

type claim struct {
	source int
	claim  string
}

// said is what a case says beside what it has seen.
type said struct {
	facts           []claim
	inference, risk []string
}

// words are those of a case. What is inferred holds only if the case comes out as
// expected; record leaves it out otherwise.
func words(c evidence.Case) said {
	if c.Name == evidence.CrashWindow {
		return windowWords(c)
	}
	switch c.Name {
	case evidence.Baseline:
		return said{
			facts:     []claim{{idempotentConsumer, "A consumer needs a stable identifier of each message and a durable record of those that it has processed."}},
			inference: []string{"Receipt and effect became visible together, under the event's own key."},
			risk: []string{
				"One delivery, without a fault, shows nothing of what happens when it is repeated or cut short.",
				"What other systems do with the stock that they read here is theirs to make idempotent.",
			},
		}
	case evidence.Redelivery:
		return said{
			facts: []claim{
				{eventDriven, "The channel may deliver an event more than once."},
				{idempotentConsumer, "The record of processed messages is what suppresses the repetition."},
			},
			inference: []string{"The event's key, and not the id of its delivery, is what was recognised: by delivery ids these would be two events."},
			risk: []string{
				"A receipt expires. A repetition that comes later than that is stale by its version: it changes nothing, and is not called a duplicate.",
				"A producer that gives one event two keys makes two events of it.",
			},
		}
	case evidence.StaleLower:
		return said{
			facts:     []claim{{eventDriven, "The order of delivery is the design's to take care of."}},
			inference: []string{"The key was new, so deduplication had nothing to say. The version alone kept the older event from changing what is newer."},
			risk: []string{
				"A reservation is a difference. Rejected as stale, it is lost to the stock, which stays too high by its quantity until a count sets it right.",
				"The rule relies on one producer, or several that agree, to count versions of a sku.",
			},
		}
	case evidence.NoRisk:
		return said{
			inference: []string{"A run that comes out green is no evidence as long as it does not say what remains unproven."},
			risk:      []string{"That a residual risk is named does not mean that it is the right one, or all of it: a person has to judge that."},
		}
	}
	return webhookWords(c)
}

func windowWords(c evidence.Case) said {
	if c.Case == evidence.BrokenVariant {
		return said{
			facts: []claim{
				{retry, "A retry of what is not idempotent may repeat its effect."},
				{idempotentConsumer, "Under duplicate delivery a consumer needs a durable record of what it has processed."},
			},
			inference: []string{
				"Looking for a receipt is not enough. Between an effect and its receipt is a moment in which a death leaves the one without the other, and the redelivery, which nobody can prevent, applies the effect again.",
			},
			risk: []string{
				"This is the failure itself, kept on record: a consumer that writes its effect first has it at every crash in that moment, however rare.",
				"The kill was at one chosen instruction; it says nothing of how often a process dies there.",
			},
		}
	}
	return said{
		facts:     []claim{{idempotentConsumer, "Under duplicate delivery a consumer needs a durable record of what it has processed."}},
		inference: []string{"With receipt and effect in one batch the same kill leaves both, and the redelivery is a duplicate. There is no moment between the two to die in."},
		risk: []string{
			"The atomic boundary is one partition of one container. An effect outside of it, a call or another store, is not covered.",
			"The kill came after the batch was acknowledged. That a batch whose answer was lost is read back is shown elsewhere, by the crash matrix, and not by this case.",
		},
	}
}

func webhookWords(c evidence.Case) said {
	switch c.Case {
	case evidence.FirstAttempt:
		return said{
			facts:     []claim{{idempotentConsumer, "The identifier must stay the same in every repetition of the unit of work."}},
			inference: []string{"The receipt key is the source, the resource and the request id. The id of the delivery is another in each attempt and is evidence only."},
			risk:      []string{"The sender must keep the request id over its retries; one that makes a new id for each is a sender of new requests."},
		}
	case evidence.RetriedAttempt:
		return said{
			facts:     []claim{{retry, "Whoever retries needs the other side to be idempotent."}},
			inference: []string{"The request id survives redelivery because the sender gives it to the request and not to the attempt: the retry was recognised under another delivery id."},
			risk:      []string{"The answer to a retry says what became of the request, not what was answered to the first attempt word for word."},
		}
	}
	return said{
		facts:     []claim{{eventDriven, "The order of delivery is the design's to take care of."}},
		inference: []string{"The two rules are independent: the request id was new, so nothing was suppressed; the version was lower, so nothing was changed."},
		risk: []string{
			"The sender counts the versions of its resource. Two senders that do not agree on them reject each other's changes.",
			"Of a state, unlike a difference, nothing is lost by the rejection: the newer state stands.",
		},
	}
}
