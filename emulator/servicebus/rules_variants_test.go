package servicebus_test

import (
	"testing"

	"oneeffect/emulator/broken"
)

// guarded is a rule of the broker, the switch of control that breaks it, and the test that must notice.
type guarded struct{ Says, Off, Test string }

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
	{"an idle queue is deleted", "auto-delete", "TestAnIdleQueueIsDeleted"},
	{"an idle topic and an idle subscription are deleted", "auto-delete", "TestAnIdleTopicAndAnIdleSubscriptionAreDeleted"},
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

func TestEveryRulesBrokenVariantIsCaught(t *testing.T) {
	broken.EveryVariantIsCaught(t, "servicebus", rules)
}

func TestEverySwitchOfServiceBusHasATest(t *testing.T) {
	broken.EverySwitchHasATest(t, "servicebus", rules)
}
