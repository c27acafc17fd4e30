package cosmos_test

import (
	"testing"

	"oneeffect/emulator/broken"
)

// guarded is a rule of the account, the switch of control that breaks it, and the test that must notice.
type guarded struct{ Says, Off, Test string }

// rules are all the rules that have a switch. A rule may be guarded by several tests, each of which must notice alone.
//
// Not here, because they are decided before there is an account to ask: what JSON is, which paths lead somewhere, what a
// patch, a key or a query may say. Their tests are tables of refusals.
var rules = []guarded{
	{"every write looks at its If-Match", "if-match", "TestEveryWriteLooksAtItsIfMatch"},
	{"of a hundred replaces under one ETag one wins", "check-and-write", "TestOfAHundredReplacesUnderOneETagOneWins"},
	{"of a hundred creates of one id one wins", "check-and-write", "TestOfAHundredCreatesOneWins"},
	{"of a hundred patches under one condition one wins", "check-and-write", "TestOfAHundredPatchesUnderOneConditionOneWins"},
	{"writers of all kinds race under one ETag", "if-match", "TestOfWritersUnderOneETagExactlyOneWins"},
	{"what exists is not created", "create-once", "TestOfCreatorsOfOneIdExactlyOneWins"},
	{"what does not exist is not replaced or deleted", "absent", "TestIfMatchOfAnItemThatIsNotThere"},
	{"an upsert of what does not exist creates it", "upsert-absent", "TestIfMatchOfAnItemThatIsNotThere"},
	{"a write makes a new ETag", "new-etag", "TestEveryWriteMakesANewETag"},

	{"a failed batch leaves nothing", "batch-atomic", "TestABatchThatFailsAnywhereLeavesNothing"},
	{"nobody sees half of a batch", "batch-isolated", "TestNobodySeesHalfOfABatch"},
	{"a batch is one change of the feed", "batch-isolated", "TestPagesOfTheChangeFeedDoNotTearTransactions"},
	{"a batch sees what it has written", "batch-own-view", "TestABatchIsAppliedAsAWhole"},
	{"what failed with another is answered 424", "failed-dependency", "TestABatchThatFailsAnywhereLeavesNothing"},
	{"what a batch failed for has its own code", "failing-status", "TestABatchThatFailsAnywhereLeavesNothing"},
	{"a batch has a hundred operations", "batch-limit", "TestABatchHasLimits"},
	{"a batch has two megabytes", "size-limit", "TestABatchHasLimits"},
	{"an item has two megabytes", "size-limit", "TestAnItemIsTwoMegabytesAtMost"},

	{"a patch is conditional", "patch-condition", "TestAPatchIsConditional"},
	{"a patch is whole or not at all", "patch-atomic", "TestAPatchDoesWhatItsOperationsSay"},
	{"a patch has ten operations", "patch-limit", "TestAPatchHasAtMostTenOperations"},

	{"an item is of the key that its request names", "partition-key", "TestAnItemIsOfTheKeyThatItsRequestNames"},
	{"a patch moves no item to another key", "partition-key", "TestAPatchDoesWhatItsOperationsSay"},
	{"unique keys are unique", "unique-keys", "TestUniqueKeysAreUniqueWithinAPartition"},

	{"an item expires", "ttl", "TestAnItemExpiresByTheHubsClock"},
	{"an item has a time to live of its own", "ttl-item", "TestAnItemExpiresByTheHubsClock"},
	{"a time to live of -1 is for ever", "ttl-never", "TestAnItemExpiresByTheHubsClock"},
	{"what has expired is not read", "ttl-read", "TestAnItemExpiresByTheHubsClock"},
	{"what has expired is not found by queries", "ttl-query", "TestAQueryDoesNotFindWhatHasExpired"},
	{"what has expired is not in the way of writes", "ttl-write", "TestAnExpiredItemIsAbsentForEveryWrite"},
	{"what has expired is not found by batches", "ttl-write", "TestABatchDoesNotFindWhatHasExpired"},
	{"what has expired is not in the change feed", "ttl-feed", "TestTheChangeFeedStartsAtATime"},
	{"a write renews _ts", "timestamp", "TestAWriteRenewsTheTimeToLive"},
	{"Date and _ts are of one clock", "one-clock", "TestDateAndTimestampAreOfOneClock"},

	{"session tokens rise", "session-rises", "TestSessionTokensRise"},
	{"a session sees its own writes", "session-read", "TestALaggingReplicaShowsThePastToReadsWithoutTheToken"},
	{"strong reads never lag", "strong-read", "TestStrongReadsNeverLag"},
	{"a session that is ahead is not answered", "session-reached", "TestSubstatusesTellRefusalsApart"},
	{"the change feed is in the order of the changes", "feed-order", "TestTheChangeFeedGivesEachItemOnceAtItsNewestVersion"},
	{"a continuation survives writes", "continuation", "TestAContinuationGoesOnWhereItWasWhateverIsWrittenBetween"},
	{"queries across partitions do not order or count", "gateway", "TestTheGatewayServesNoMoreThanFiltersAcrossPartitions"},

	{"a wrong key is refused", "auth", "TestAWrongKeyIsRefused"},
	{"a request is signed for what it asks", "auth", "TestARequestMustBeSigned"},
	{"a signature gets old", "date-skew", "TestARequestMustBeSigned"},
	{"a test token expires", "token-expiry", "TestATokenIsTakenForItsTime"},
	{"a test token carries the account's key", "token-signature", "TestATokenIsTakenForItsTime"},
	{"a token is for this account", "auth", "TestATokenIsTakenIfItIsForThisAccount"},
	{"a client that is throttled waits", "retry-after", "TestAThrottledClientWaitsAsLongAsItIsTold"},
}

func TestEveryRulesBrokenVariantIsCaught(t *testing.T) {
	broken.EveryVariantIsCaught(t, "cosmos", rules)
}

func TestEverySwitchOfCosmosHasATest(t *testing.T) { broken.EverySwitchHasATest(t, "cosmos", rules) }
