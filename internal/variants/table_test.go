package variants

import "slices"

// table is every broken variant: what is changed, and who notices.
var table = slices.Concat(ofWork, ofExecutions, ofReceipts, ofEvidence, ofDisk)

// ofWork are the variants of what workers promise.
var ofWork = []variant{
	{
		"C1", "a lease that stands is taken over", "claim/take.go",
		`!old.Released && age <= stale`, `!old.Released && age < 0`,
		"claim.TestAClaimThatSomebodyHoldsIsBusy",
	},
	{
		"C1", "two deliveries in one process share the claim", "claim/desk.go",
		`	if d.running[id] {
		return false
	}
`, ``,
		"claim.TestTwoDeliveriesInOneProcessShareNothing",
	},
	{
		"C2", "a completed claim is granted again", "claim/take.go",
		`case old.Status == Completed:`, `case old.Status == Completed && ask.Run > 1:`,
		"claim.TestACompletedClaimIsToldAgainAndNeverChanged",
	},
	{
		"C2", "a completed claim is renewed", "claim/lease.go",
		`if l.claim.Status != InProgress || l.claim.Released || l.ctx.Err() != nil {`, `if l.ctx.Err() != nil {`,
		"claim.TestAFinalStateIsNotRenewed",
	},
	{
		"C3", "a takeover keeps the fence", "claim/take.go",
		`next.Owner, next.Fence = owner, old.Fence+1
	next.Run = max`, `next.Owner, next.Fence = owner, old.Fence
	next.Run = max`,
		"claim.TestAClaimPassesOnWhenItsOwnerIsSilent",
	},
	{
		"C4", "a zombie adopts the grant that it finds", "claim/change.go",
		`stands.Status == InProgress && stands.Owner == owner && stands.Fence == fence`, `stands.Status == InProgress`,
		"claim.TestAZombieChangesNothing",
	},
	{
		"C5", "trust is counted from when the answer came", "claim/lease.go",
		`l.adopt(next, etag, sent)`, `l.adopt(next, etag, l.desk.read())`,
		"claim.TestTrustIsCountedFromBeforeTheRequestWasSent",
	},
	{
		"C5", "an owner trusts its lease to the end", "claim/lease.go",
		`return l.desk.Lease - l.desk.OwnerMargin - l.elapsed(l.asked)`, `return l.desk.Lease - l.elapsed(l.asked)`,
		"claim.TestTrustEndsBeforeAnyoneElseMayTakeTheClaim",
	},
	{
		"C5", "nothing renews a lease", "claim/lease.go",
		`	err := l.apply(ctx, func(*Claim) {})
	if l.desk`, `	err := ctx.Err()
	if l.desk`,
		"claim.TestALeaseIsRenewedForAsLongAsItIsHeld",
	},
	{
		"C5", "trust that was lost is regained", "claim/lease.go",
		`	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	return l.write(ctx, change)`, `	return l.write(ctx, change)`,
		"claim.TestTrustThatHasEndedIsNotRegained",
	},
	{
		"C5 C6", "a lease is counted by the monotonic clock alone", "claim/clock.go",
		`return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall))`, `return r.Monotonic.Sub(earlier.Monotonic)`,
		"claim.TestTrustSurvivesNoJumpOfTheWallClockAndGainsByNone",
	},
	{
		"C5 C6", "a lease is counted by the wall clock alone", "claim/clock.go",
		`return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall))`, `return r.Wall.Sub(earlier.Wall)`,
		"claim.TestTrustSurvivesNoJumpOfTheWallClockAndGainsByNone",
	},
	{
		"C6", "a challenger waits for no margin", "claim/take.go",
		`stale := old.lease() + t.ChallengerMargin`, `stale := old.lease() - t.OwnerMargin`,
		"claim.TestNoClockIsComparedWithAnother",
	},
	{
		"C7", "another payload passes", "claim/take.go",
		`case old.Fingerprint != ask.Fingerprint:`, `case old.TaskType != ask.TaskType:`,
		"claim.TestAnotherPayloadIsRefusedAndNothingIsWritten",
	},
	{
		"C7", "a fingerprint leaves the payload out", "claim/claim.go",
		`slices.Concat([]byte(taskType), []byte{0}, canonicalPayload)`, `slices.Concat([]byte(taskType), []byte{0}, canonicalPayload[:1])`,
		"claim.TestDifferentRequestsHaveDifferentFingerprints",
	},
	{
		"C8", "a takeover counts no start", "claim/take.go",
		`	next.Starts++
`, ``,
		"claim.TestATaskThatKillsItsWorkersEnds",
	},
	{
		"C8", "a release keeps the start", "claim/change.go",
		`		c.Starts--
`, ``,
		"claim.TestStartsThatWereSurvivedAreGivenBack",
	},
	{
		"C9", "holding the claim is taken for having written", "claim/lease.go",
		`		l.adopt(s.Claim, s.ETag, Reading{})
		return false, nil`, `		l.adopt(s.Claim, s.ETag, Reading{})
		return true, nil`,
		"claim.TestAWriteThatWasNotAppliedIsSentAgain",
	},
	{
		"C9", "a lost answer is taken for a write", "claim/lease.go",
		`		if errors.Is(err, message.ErrRefused) {
			return err
		}
		last = err`, `		if errors.Is(err, message.ErrRefused) {
			return err
		}
		if errors.Is(err, message.ErrUnknown) {
			l.adopt(next, l.etag, sent)
			return nil
		}
		last = err`,
		"claim.TestACallStartsOnlyAfterProof",
	},
	{
		"C9", "a grant whose answer was lost is somebody's", "claim/desk.go",
		`s != nil && TakenBy(s.Claim, t.owner)`, `s != nil && s.Claim.W == t.held.W && s.Claim.Status == InProgress`,
		"claim.TestAGrantWhoseAnswerIsLostIsRecognisedByItsOwner",
	},
	{
		"C9", "one owner for all grants of a process", "claim/desk.go",
		`owner: d.Process + "/" + Nonce()`, `owner: d.Process`,
		"claim.TestAGrantOfNobodyEndsByItself",
	},
	{
		"C10", "a failure is told before it is written", "claim/take.go",
		`		next = fail(old, owner, *f, t)
		return next, Verdict{Kind: Over, Claim: next}, true`, `		next = fail(old, owner, *f, t)
		return next, Verdict{Kind: Over, Claim: next}, false`,
		"claim.TestAKeylessCallThatMayHaveBeenMadeIsFailedOnce",
	},
	{
		"D1", "a failure is told and dead-lettered, and no claim knows", "worker/worker.go",
		`		return lease.Fail(ctx, claim.Failure{Reason: claim.OutcomeUnknown, Description: o.Description, Outcome: claim.EffectUnknown})`,
		`		stands.Failure = &claim.Failure{Reason: claim.OutcomeUnknown, Description: o.Description, Outcome: claim.EffectUnknown}
		return claim.Verdict{Kind: claim.Over, Claim: stands}, nil`,
		"worker.TestTheFirstFailureOfAKeylessHandlerIsFinal",
	},
	{
		"D1", "a message is settled although its event was not taken", "worker/worker.go",
		`err = w.publish(ctx, job, verdict)`, `_ = w.publish(ctx, job, verdict)`,
		"worker.TestAnEventThatIsNotTakenIsToldByTheNextDelivery",
	},
	{
		"D1", "what says nothing about the execution is told", "worker/publish.go",
		`	case claim.Over:
		return message.Event{`, `	case claim.Over, claim.Refused:
		return message.Event{`,
		"worker.TestOnlyVerdictsThatEndSomethingAreTold",
	},
	{
		"W1", "a keyless call is made without a word in the claim", "worker/call.go",
		`	if err := lease.CallStarting(ctx); err != nil {
		return notCalled("it is not proved that the claim says so", err)
	}
`, ``,
		"worker.TestAKeylessCallIsMadeOnlyAfterTheClaimSaysSo",
	},
	{
		"W1", "a keyless call is made although that word was not proved", "worker/call.go",
		`		return notCalled("it is not proved that the claim says so", err)
`, `		w.Log.Info(err.Error())
`,
		"worker.TestACallThatCannotBeAnnouncedIsNotMade",
	},
	{
		"W1", "a keyless call is made again after a failure", "worker/call.go",
		`	o.Retry, o.Free = false, false // whatever the handler thinks of it: the first failure is final
`, ``,
		"worker.TestTheFirstFailureOfAKeylessHandlerIsFinal",
	},
	{
		"W1", "a call that was not made stays announced", "worker/call.go",
		`		w.withdraw(ctx, lease)
		return notCalled`, `		return notCalled`,
		"worker.TestAKeylessCallThatIsNotMadeAfterAllIsMadeLater",
	},
	{
		"W1", "a claim that began keyless is gone on with as if it had a key", "worker/call.go",
		`return j.declared.Keyed && stands.Keyed }`, `return j.declared.Keyed }`,
		"worker.TestAClaimThatBeganKeylessKeepsItsRules",
	},
	{
		"C8 W3", "a prompt call goes on although the process stops", "worker/call.go",
		`		defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
`, ``,
		"worker.TestAStopGivesTheClaimBack",
	},
	{
		"W1", "the result of a keyless step is not kept", "worker/call.go",
		`	return lease.StepDone(ctx, step.Name, r)`, `	_ = r
	return nil`,
		"worker.TestAnotherWorkerGoesOnAfterTheLastStepThatIsKept",
	},
	{
		"W1 E4", "a run that nobody took makes an earlier one's effect known", "claim/claim.go",
		`	case c.Status == Failed:
		return c.Failure.Outcome
`, `	case c.Status == Failed:
		return EffectNone
`,
		"claim.TestADeadRunDoesNotForgetWhatAnEarlierOneMayHaveDone",
	},
	{
		"W1", "another version's keyless step is gone on with", "claim/take.go",
		`case !ask.Keyed && old.KeylessStep != ask.KeylessStep:`, `case old.Status == Cancelled:`,
		"worker.TestAClaimOfAnotherKeylessStepIsNotGoneOnWith",
	},
	{
		"W1", "a replay calls again without a key although nobody vouches", "claim/take.go",
		`case old.Status == Failed && !settled(old, ask) && (!old.Keyed || !ask.Keyed):`, `case old.Status == Failed && ask.Run > 100:`,
		"worker.TestAReplayCallsAgainWithoutAKeyOnlyIfSomebodyVouches",
	},
	{
		"W2", "a keyed call is made after the downstream may have forgotten", "worker/call.go",
		`claim.WindowPassed(stands.FirstCallAt, j.delivery.BrokerNow().Add(step.Timeout), step.KeyWindow, w.KeyMargin)`,
		`claim.WindowPassed(stands.FirstCallAt, stands.FirstCallAt, step.KeyWindow, w.KeyMargin)`,
		"worker.TestACallThatOutlastsTheKeyWindowIsNotMade",
	},
	{
		"W2", "the fence is in the key", "worker/call.go",
		`c.Key = message.Key(j.task.ExecutionID, step.Name)`, `c.Key = message.Key(fmt.Sprintf("%s-%d", j.task.ExecutionID, stands.Fence), step.Name)`,
		"worker.TestAnotherWorkerGoesOnAfterTheLastStepThatIsKept",
	},
	{
		"W2", "a step that is kept is made again", "worker/call.go",
		`made, kept := lease.Claim().Steps[step.Name]; kept {`, `made, kept := lease.Claim().Steps[""]; kept {`,
		"worker.TestAStepThatIsKeptIsNotMadeAgain",
	},
	{
		"W1", "the last step is made again although another version has kept it", "worker/call.go",
		`made, kept := lease.Claim().Steps[step.Name]; kept {`, `made, kept := lease.Claim().Steps[step.Name]; kept && i < len(steps)-1 {`,
		"worker.TestAStepThatIsKeptIsNotMadeAgainWhereverItStandsNow",
	},
	{
		"W2", "a call goes on after its lease", "worker/call.go",
		`context.WithCancelCause(lease.Context())`, `context.WithCancelCause(context.WithoutCancel(lease.Context()))`,
		"worker.TestACallEndsWithItsLeaseAndItsResultDoesNotCount",
	},
	{
		"W3", "waiting spends a delivery", "worker/publish.go",
		`		return by(message.Later(v.Wait), left)`, `		return message.Retry()`,
		"worker.TestEveryVerdictHasASettlement",
	},
	{
		"W3", "what comes to nothing comes back as soon as ever", "worker/publish.go",
		`min(first<<min(inVain, 16), longestDelay)`, `min(first, longestDelay)`,
		"worker.TestWhatComesToNothingComesBackLaterEveryTime",
	},
	{
		"W3", "a downstream may ask for more time than there is", "worker/worker.go",
		`	longest = min(longest, max(j.task.NotAfter.Sub(now), time.Second))
`, ``,
		"worker.TestNoCopyComesAfterNotAfter",
	},
	{
		"W3", "a run is ended by the deadline of an earlier one", "worker/worker.go",
		`	if j.task.Run < stands.Run {
		return j.task.NotAfter
	}
	return j.task.Deadline`, `	return j.task.Deadline`,
		"worker.TestARunIsNotEndedByTheDeadlineOfAnEarlierOne",
	},
	{
		"W3", "unknown answers are not counted", "worker/worker.go",
		`case !o.Free && stands.Answered+1 >= j.declared.Attempts:`, `case !o.Free && stands.Answered+1 > 1<<20:`,
		"worker.TestNothingIsTriedForEver",
	},
}
