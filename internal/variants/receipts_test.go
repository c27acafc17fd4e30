package variants

// ofReceipts are the variants of what is promised of receipts, of the projector that
// keeps them, and of the sessions in which it receives.
var ofReceipts = []variant{
	{
		"R1", "two events share a receipt", "receipt/receipt.go",
		`sum := sha256.Sum256([]byte(key))`, `sum := sha256.Sum256([]byte(key[:min(len(key), 13)]))`,
		"receipt.TestAReceiptsIDIsOfItsKeyAloneAndNoOtherDocuments",
	},
	{
		"R2", "the effect first, and then the receipt", "receipt/book.go",
		`		etag, err = r.book.Store.Apply(ctx, entity, receipt, next, etag)
`, `		effect := receipt
		effect.Key += r.w
		if etag, err = r.book.Store.Apply(ctx, entity, effect, next, etag); err == nil {
			err = r.book.Store.Reject(ctx, entity, receipt)
		}
`,
		"receipt.TestALostAnswerIsReadBack",
	},
	{
		"R3", "an equal version passes", "receipt/receipt.go",
		`if e.Version <= stands.Version {`, `if e.Version < stands.Version {`,
		"receipt.TestAnEventChangesAnItemOnlyIfItsVersionIsGreater",
	},
	{
		"R4", "an event is known by its transport id too", "receipt/book.go",
		`receipt.W, receipt.Delivery, receipt.Trace = r.w, r.delivery.ID, r.delivery.Trace`, `receipt.W, receipt.Delivery, receipt.Trace, receipt.Key = r.w, r.delivery.ID, r.delivery.Trace, receipt.Key+r.delivery.ID`,
		"receipt.TestAnEventIsAppliedOnceUnderWhateverTransportID",
	},
	{
		"R5", "other content is taken for a duplicate", "receipt/receipt.go",
		`case stands.Digest != e.Digest || stands.Key != e.Key:`, `case stands.Key != e.Key:`,
		"receipt.TestAnotherContentUnderAKnownKeyChangesNothing",
	},
	{
		"R6", "any receipt that is found is one's own", "receipt/receipt.go",
		`case stands.W != w:`, `case stands.W == "":`,
		"receipt.TestAReceiptFoundAfterALostAnswerIsOnlyOursByItsNonce",
	},
	{
		"R7", "a refusal is not looked into", "receipt/book.go",
		`r.look, r.exists = true, true`, `r.look, r.exists = false, true`,
		"receipt.TestALaggingReplicaMisleadsNobody",
	},
	{
		"R8", "any reservation begins an item", "receipt/event.go",
		`bool { return version == 1 }`, `bool { return version > 0 }`,
		"receipt.TestAReservationBeginsAnItemOnlyWithTheFirstVersion",
	},
	{
		"R8", "a gap leaves no trace", "receipt/receipt.go",
		`r.Gap = e.Version - stands.Version - 1`, `r.Gap = 0`,
		"receipt.TestAGapIsInTheReceiptOfWhatCameAfterIt",
	},
	{
		"R9", "whoever has waited longest is next, whatever its version", "receipt/turns.go",
		`return cmp.Compare(a.version, b.version)`, `return cmp.Compare(a.version, a.version)`,
		"receipt.TestEventsOfOneSKUTakeTurns",
	},
	{
		"R9", "a turn hands nothing on", "receipt/book.go",
		`turn.pass(r.stands)`, `turn.pass(nil)`,
		"receipt.TestEventsOfOneSKUTakeTurns",
	},
	{
		"P1 P3", "a message is completed although nothing is known", "projector/projector.go",
		`return message.Hold(count)`, `return message.Done()`,
		"projector.TestAMessageWhoseReceiptIsNotProvedIsNotCompleted",
	},
	{
		"P2", "a conflict is completed", "projector/projector.go",
		`case d.Class == receipt.Conflict:
		return`, `case d.Class == "":
		return`,
		"projector.TestWhatCannotTakeEffectIsDeadLetteredWithItsReason",
	},
	{
		"P3", "nobody waits for the beginning of a sku", "projector/projector.go",
		`|| look > d.Count`, `|| look > 0`,
		"projector.TestWhatIsNotKnownYetIsTriedAgainLater",
	},
	{
		"P3", "the beginning of a sku is waited for no longer after an outage", "projector/projector.go",
		`|| look > d.Count`, `|| look > 1`,
		"sim.TestAReservationWaitsForABeginningThatAnOutageHeldUp",
	},
	{
		"R3", "broker order is taken for the version rule", "receipt/receipt.go",
		`if e.Version <= stands.Version {`, `if e.Version == stands.Version {`,
		"sim.TestSessionsMakeStaleEventsRareAndTheVersionRuleNoLessNeeded",
	},
	{
		"S11", "the next message of a session is received although the one before it is not settled", "servicebus/session.go",
		`			return errGone
`, `			continue
`,
		"servicebus.TestAMessageThatWasNotSettledComesAgainFirst",
	},
	{
		"S11", "a session is kept for ever", "servicebus/session.go",
		`time.Since(s.accepted) < sessionTurn`, `sessionTurn > 0`,
		"servicebus.TestASessionHasItsTurnAndNoMore",
	},
	{
		"S11", "a session's lock is not renewed", "servicebus/session.go",
		`p.renewSession(renewing, s)`, `<-renewing.Done()`,
		"servicebus.TestASessionsLockIsRenewedWhileItsMessageIsWorkedOn",
	},
	{
		"P4", "the message's id is in the key", "projector/projector.go",
		`		decision, err := p.Inventory.Record(`, `		e.Key += d.MessageID
		decision, err := p.Inventory.Record(`,
		"projector.TestATransportIDDecidesNothing",
	},
	{
		"P5", "a signature of the future is good", "projector/signature.go",
		`at.Before(now.Add(-window)) || at.After(now.Add(window))`, `at.Before(now.Add(-window))`,
		"projector.TestAWebhookThatIsNotSignedIsNotHeard",
	},
	{
		"P5", "a source that does not exist has a secret", "projector/signature.go",
		`return fits && known`, `return fits`,
		"projector.TestAWebhookThatIsNotSignedIsNotHeard",
	},
	{
		"P6", "a conflict is told as success", "projector/webhook.go",
		`case d.Class == receipt.Conflict:`, `case d.Class == "":`,
		"projector.TestARequestIDWithOtherContentIsAConflict",
	},
}
