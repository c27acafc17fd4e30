package servicebus_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

// guarded is a rule of the broker, the switch of control that breaks it, and the test that must notice.
type guarded struct{ rule, off, test string }

// rules are all the rules that have a switch. A rule may be guarded by several tests, each of which must notice alone.
//
// Not here, because no line of production code could break them alone: the order of what comes back to a session, whose
// messages are in one heap; credit, drain and the encodings of replies, since the AMQP package knows no switches; the
// languages of rules, which are data. Their tests stand without a variant.
var rules = []guarded{
	{"a message past its time to live is not delivered", "ttl", "TestAMessagePastItsTimeToLiveIsNotDelivered"},
	{"the entity's time to live is a ceiling", "ttl-ceiling", "TestTheTimeToLiveOfAnEntityIsACeiling"},
	{"locked messages do not expire", "locked-unexpired", "TestALockedMessageDoesNotExpire"},
	{"deferred messages do not expire", "deferred-unexpired", "TestADeferredMessageDoesNotExpire"},
	{"dead letters do not expire", "dead-letter-unexpired", "TestDeadLettersDoNotExpire"},
	{"expired messages become dead letters", "dead-letter-expired", "TestExpiredMessagesBecomeDeadLetters"},
	{"the broker's dead letters carry reason and description", "dead-letter-reason", "TestTheBrokersDeadLettersSayWhy"},
	{"a message is delivered MaxDeliveryCount times", "max-delivery", "TestAMessageIsDeliveredMaxDeliveryTimes"},
	{"failed deliveries are counted", "delivery-count", "TestAMessageIsDeliveredMaxDeliveryTimes"},
	{"the first delivery has count 0 on the wire", "count-from-zero", "TestTheFirstDeliveryHasNoneBehindIt"},
	{"abandoning counts", "abandon-counted", "TestAbandoningCountsADelivery"},
	{"releasing does not count", "release-uncounted", "TestReleasingCountsNothing"},
	{"nothing counts in a dead letter queue", "dead-letter-uncounted", "TestNothingCountsInADeadLetterQueue"},
	{"a dead letter keeps its count", "dead-letter-count", "TestADeadLetterKeepsItsCount"},
	{"what comes back stands at its old place", "old-place", "TestWhatComesBackStandsAtItsOldPlace"},
	{"properties larger than the limit make a dead letter", "header-limit", "TestPropertiesThatGrowTooLargeMakeADeadLetter"},
	{"abandoning sets properties", "modified-properties", "TestAbandoningCountsADelivery"},
	{"receivers are served in turn", "receivers-in-turn", "TestWhoHasWaitedLongestIsServedFirst"},
	{"receive and delete removes", "receive-and-delete", "TestReceiveAndDeleteRemovesOnDelivery"},

	{"a lock expires and its message is redelivered", "lock-expiry", "TestAnExpiredLockIsRedeliveredAndCounted"},
	{"the expiry of a lock counts", "lock-expiry-counted", "TestAnExpiredLockIsRedeliveredAndCounted"},
	{"renewing extends a lock", "lock-renewal", "TestRenewingExtendsALock"},
	{"a stale settlement is refused", "lock-lost", "TestAStaleSettlementIsRefused"},
	{"locks survive their link", "locks-survive", "TestLocksSurviveTheirLink"},
	{"locks survive their connection", "locks-survive", "TestLocksSurviveTheirConnection"},
	{"dead-lettering is answered accepted", "dead-letter-accepted", "TestDeadLetteringIsAnsweredAcceptedAtOnce"},
	{"a deferred message is received by its number only", "deferral", "TestADeferredMessageIsReceivedByItsNumberOnly"},
	{"a deferred message carries its lock's token", "deferred-lock-token", "TestADeferredMessageCarriesItsLocksToken"},

	{"duplicates are accepted and dropped", "duplicate-detection", "TestDuplicatesAreAcceptedAndDropped"},
	{"a topic drops duplicates before it fans out", "duplicate-detection", "TestATopicDropsDuplicatesBeforeItFansOut"},
	{"scheduled messages are looked at for duplicates", "scheduled-duplicates", "TestScheduledMessagesAreLookedAtForDuplicatesBothWays"},
	{"a scheduled message is invisible until its time", "schedule", "TestAScheduledMessageIsInvisibleUntilItsTime"},
	{"an activated message has a new sequence number", "activation-number", "TestAnActivatedMessageHasANewSequenceNumber"},
	{"a cancelled message never comes", "cancel-scheduled", "TestACancelledMessageNeverComes"},

	{"a session is locked by one", "session-lock", "TestASessionThatIsLockedIsRefused"},
	{"a session is free when its receiver has gone", "session-freed", "TestASessionThatIsLockedIsRefused"},
	{"sessions take turns", "session-turns", "TestSessionsTakeTurns"},
	{"a session's receiver gets no other session's messages", "session-messages", "TestASessionReceiverGetsNoOtherSessionsMessages"},
	{"a session is not granted to who gave up", "session-withdrawal", "TestASessionIsNeverGrantedToAClientThatGaveUp"},
	{"the end of a session's receiver counts nothing", "session-close-uncounted", "TestTheEndOfASessionReceiverCountsNothingButTheEndOfItsLockDoes"},
	{"the expiry of a session's lock counts", "session-lock-expiry-counted", "TestTheEndOfASessionReceiverCountsNothingButTheEndOfItsLockDoes"},
	{"the lock of a session expires", "lock-expiry", "TestAMessageWhoseSessionLockIsLostIsNotSettled"},
	{"renewing extends the lock of a session", "lock-renewal", "TestASessionLockThatIsRenewedLasts"},
	{"an empty session state is none", "empty-session-state", "TestAnEmptyStateClearsASession"},

	{"a subscription gets what its rules match", "subscription-rules", "TestASubscriptionGetsWhatItsRulesMatch"},
	{"the action of a rule changes its copy", "rule-actions", "TestTheActionOfARuleChangesItsCopy"},
	{"a topic fans out", "topic-fan-out", "TestATopicFansOut"},
	{"a queue forwards", "auto-forward", "TestAForwardedMessageRemembersItsFirstNumber"},
	{"a forwarded message remembers its first number", "enqueued-number", "TestAForwardedMessageRemembersItsFirstNumber"},
	{"a message is forwarded four times at most", "hop-limit", "TestAMessageIsForwardedFourTimesAtMost"},
	{"dead letters are forwarded", "dead-letter-forward", "TestDeadLettersAreForwardedWithTheirReason"},

	{"a batch is enqueued whole or not at all", "batch-atomic", "TestAMessageWithoutASessionIsRefusedWithItsWholeBatch"},
	{"the envelope of a batch is no message", "batch-envelope", "TestABatchArrivesAsItsMessages"},
	{"what is too large is refused", "size-limit", "TestTooLargeIsRefused"},
	{"a sender learns the largest message", "max-message-size", "TestASenderLearnsTheLargestMessage"},
	{"a full entity refuses", "entity-size", "TestAFullEntityRefusesAndTakesAgainWhatItHasRoomFor"},
	{"a disabled entity refuses", "entity-status", "TestADisabledEntityRefusesItsClients"},
	{"annotations that the broker does not know are kept", "foreign-annotations", "TestAnActiveMessageCarriesExactlyTheseSections"},
	{"a message without an id gets one", "message-id", "TestAMessageWithoutAnIDGetsOne"},
	{"annotations of the broker are stripped from what is sent", "stripped-annotations", "TestAnnotationsOfTheBrokerAreNotTakenFromASender"},
	{"an active message carries no more than it should", "exact-annotations", "TestAnActiveMessageCarriesExactlyTheseSections"},
	{"peeking shows no locks", "peek-unlocked", "TestPeekingLocksNothing"},
	{"the delivery tag is the lock token as a Guid", "delivery-tag", "TestTheDeliveryTagIsTheLocksTokenAsAGuid"},

	{"$cbs is free again when its session ends", "cbs-freed", "TestOneConnectionReachesManyEntities"},
	{"$cbs is free again, without the SDK", "cbs-freed", "TestAConnectionHasOneCBSSenderUntilItsSessionEnds"},
	{"a token for what does not exist is answered 404", "put-token-not-found", "TestAnUnknownEntityIsNotFound"},
	{"a token is checked", "auth", "TestOnlyAValidTokenIsTaken"},
	{"a link needs a claim", "claims", "TestAKeyAllowsWhatItsClaimsSay"},
	{"a change of an entity detaches its links", "change-detaches", "TestAChangeOfAnEntityDetachesItsLinks"},
	{"a link ends with its token", "token-expiry", "TestALinkEndsWithItsToken"},
	{"a connection without a token is closed", "token-expiry", "TestAConnectionWithoutATokenIsClosed"},
	{"an idle link is detached", "idle-link", "TestAnIdleLinkIsDetached"},
	{"a connection without links is closed", "idle-connection", "TestAConnectionWithoutLinksIsClosed"},
}

// brokenRule is the environment variable that names the switch with which every world of this process begins.
const brokenRule = "SERVICEBUS_BROKEN_RULE"

// breakRule turns off the rule that this process is to be without, if there is one.
func breakRule(t *testing.T, hub *control.Hub) {
	t.Helper()
	if name := os.Getenv(brokenRule); name != "" {
		if err := hub.Switch(name, true); err != nil {
			t.Fatal(err)
		}
	}
}

// variantLimit is how long a test may take without its rule, and wholeLimit how long all may with every rule in force.
// No variant is caught by it: a hang fails the test.
const (
	variantLimit = time.Minute
	wholeLimit   = 3 * time.Minute
)

// A test that stays green whatever the broker does proves nothing. This one runs each rule's test in a process of its
// own against a broker without that rule, and wants it red: by an assertion, neither by a panic nor by the clock.
func TestEveryRulesBrokenVariantIsCaught(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, r := range rules {
		tests = append(tests, r.test)
	}
	tests = slices.Compact(slices.Sorted(slices.Values(tests)))
	start := time.Now()
	if out, err := runTests(t.Context(), wholeLimit, binary, "", tests...); err != nil || strings.Contains(out, "no tests to run") {
		t.Fatalf("with every rule in force: %v\n%s", err, out)
	} else if passed := strings.Count(out, "\n--- PASS: "); passed != len(tests) {
		t.Fatalf("with every rule in force %d of %d tests passed\n%s", passed, len(tests), out)
	}
	whole := time.Since(start)

	verdicts := make([]string, len(rules))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i, r := range rules {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			begun := time.Now()
			out, err := runTests(t.Context(), variantLimit, binary, "servicebus."+r.off, r.test)
			how, caught := verdict(out, err, r.test)
			if !caught {
				t.Errorf("without %q, %s: %s", r.off, r.test, how)
			}
			verdicts[i] = fmt.Sprintf("%-55s %-28s %5.2fs  %s", r.rule, r.off, time.Since(begun).Seconds(), how)
		})
	}
	running.Wait()
	t.Logf("%d tests pass with every rule in force (%.1fs); without its rule each fails (%.1fs):\n%s",
		len(tests), whole.Seconds(), time.Since(start).Seconds(), strings.Join(verdicts, "\n"))
}

func TestEverySwitchOfServiceBusHasATest(t *testing.T) {
	known := make(map[string]bool)
	for _, s := range control.New().Switches() {
		if name, ok := strings.CutPrefix(s.Name, "servicebus."); ok {
			known[name] = false
		}
	}
	for _, r := range rules {
		if _, ok := known[r.off]; !ok {
			t.Errorf("the rule %q has a switch %q that control does not know", r.rule, r.off)
		}
		known[r.off] = true
	}
	for name, tested := range known {
		if !tested {
			t.Errorf("no test notices that %q is off", name)
		}
	}
}

// runTests runs tests of this binary in a process whose worlds are without a rule.
func runTests(ctx context.Context, limit time.Duration, binary, broken string, tests ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Second) // after its own timeout, which says more
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout="+limit.String(), "-test.run=^("+strings.Join(tests, "|")+")$")
	cmd.Env = append(os.Environ(), brokenRule+"="+broken)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// said finds what an assertion said.
var said = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: (.*)$`)

// verdict tells how a broken variant was caught, if it was.
func verdict(out string, err error, test string) (how string, caught bool) {
	words := said.FindStringSubmatch(out)
	switch {
	case err == nil:
		return "PASSED, although the rule is off", false
	case strings.Contains(out, "panic: "), strings.Contains(out, "DATA RACE"), words == nil, !strings.Contains(out, "--- FAIL: "+test+" "):
		return fmt.Sprintf("ended without a word of an assertion: %v\n%s", err, out), false
	}
	if len(words[1]) > 90 {
		words[1] = words[1][:90] + "…"
	}
	return words[1], true
}
