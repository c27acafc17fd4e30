package variants

// ofExecutions are the variants of what is promised of executions, wherever that is
// kept.
var ofExecutions = []variant{
	{
		"E1", "a second completion is a second transition", "execution/next.go",
		`			return Change{}, NoOp
		}
		return Change{}, Contradiction
	case Cancelled:`, `			return change, Transition
		}
		return Change{}, Contradiction
	case Cancelled:`,
		"execution.TestEveryEventInEveryState",
	},
	{
		"E1", "a ticket decides by itself", "cosmos/execution.go",
		`		condition := "FROM c WHERE c.status = '" + string(change.From) + "'"`, `		condition := "FROM c WHERE true"`,
		"cosmos.TestAChangeLeavesTheStateThatItSays",
	},
	{
		"E1", "a transition whose answer was lost is not looked after", "orchestrator/orchestrator.go",
		`errors.Is(err, message.ErrConflict) || errors.Is(err, message.ErrUnknown) ||`, `errors.Is(err, message.ErrConflict) ||`,
		"orchestrator.TestALostAnswerToATransitionIsOneTransition",
	},
	{
		"E1", "a part is joined whether it has ended before or not", "cosmos/execution.go",
		` + "' AND " + part + ".status = '" + string(execution.Running) + "'")`, ` + "'")`,
		"cosmos.TestAPartIsJoinedOnceWithoutALook",
	},
	{
		"E1", "whoever joins the last part again ends nothing", "execution/join.go",
		`		change, d := Conclude(stands, now)
		return change, d, nil`, `		return Change{}, NoOp, nil`,
		"execution.TestWhatIsJoinedAgainEndsTheWholeIfNobodyHas",
	},
	{
		"E4", "parts that have all ended end nothing where that was cut off", "orchestrator/join.go",
		`	errs := []error{o.conclude(ctx, stands)}`, `	var errs []error`,
		"orchestrator.TestAnEndThatWasCutOffIsMadeGood",
	},
	{
		"E6", "a part that was begun is taken for sent", "orchestrator/join.go",
		`	case part.Status == execution.Running && part.Run == entry.Run:
		return o.dispatch(ctx, part, entry, stands.ETag)
`, ``,
		"orchestrator.TestAPartThatWasBegunAndNotSentIsSentByTheRelay",
	},
	{
		"E8", "a part that had not begun runs although the whole is cancelled", "orchestrator/join.go",
		`		if !errors.Is(err, message.ErrNotFound) {
			return err
		}
		now`, `		if err != nil {
			return nil
		}
		now`,
		"orchestrator.TestACancelThatMeetsTheFanOutCancelsEveryPart",
	},
	{
		"E8", "parts whose cancel was cut off run on", "orchestrator/reconcile.go",
		`	if err != nil || whole.Execution.Status != execution.Cancelled {`, `	if err != nil || whole.Execution.Status != execution.Failed {`,
		"orchestrator.TestTheReconcilerCancelsThePartsOfWhatWasCancelled",
	},
	{
		"E8", "whoever had a part's id before is cancelled with the whole", "orchestrator/join.go",
		`		if stands.Orchestration != e.ExecutionID {`, `		if stands.Orchestration != e.ExecutionID && stands.Orchestration != "" {`,
		"orchestrator.TestCancellingTheWholeLeavesWhoeverHadAPartsIDBefore",
	},
	{
		"E7", "a dead letter that asks for something else is removed too", "orchestrator/clear.go",
		`	return err == nil && asked == dealt.request`, `	return err == nil && asked != ""`,
		"orchestrator.TestTheDeadLettersOfWhatWasReplayedOrResolvedAreRemoved",
	},
	{
		"E2", "another result is taken for the same", "execution/next.go",
		`if stands.Result != nil && stands.Result.Digest == c.ResultDigest {`, `if stands.Result != nil {`,
		"execution.TestEveryEventInEveryState",
	},
	{
		"E2", "a contradiction is settled without a trace", "orchestrator/orchestrator.go",
		`		return message.Reject(ResultChanged, "the execution is completed with another result; its state is unchanged")`,
		`		return message.Done()`,
		"orchestrator.TestAnEventIsSettledByWhatItDoes",
	},
	{
		"E3", "a failure wins over a completion", "execution/next.go",
		`		change.Note.What = "recovered" // the claim completed after all, and the claim is right
		return change, Transition`, `		return Change{}, NoOp`,
		"execution.TestEveryEventInEveryState",
	},
	{
		"E3", "a failure of an earlier run fails this one", "execution/next.go",
		`stands.Status == Running && f.Run >= stands.Run:`, `stands.Status == Running && f.Run > 0:`,
		"execution.TestEveryEventInEveryState",
	},
	{
		"E3", "a failure of an earlier run fails this one where its ticket fits", "cosmos/execution.go",
		`		if change.FromRun > 0 {`, `		if change.FromRun > 1<<20 {`,
		"orchestrator.TestEveryEventInEveryStateUnderEveryTicket",
	},
	{
		"E4", "what says nothing about an execution fails it", "orchestrator/reconcile.go",
		`if slices.Contains(innocent, d.Reason) {`, `if slices.Contains(innocent, d.Reason) && d.Body == nil {`,
		"orchestrator.TestADeadLetterIsAHintToReadTheClaim",
	},
	{
		"E4", "a dead letter of an earlier run fails this one", "orchestrator/reconcile.go",
		`	case task.Run < e.Run:
		return nil
`, ``,
		"orchestrator.TestADeadLetterIsAHintToReadTheClaim",
	},
	{
		"E4", "a dead letter of another payload fails the innocent", "orchestrator/reconcile.go",
		`if err != nil || asked != stands.Execution.Request {`, `if err != nil || asked == "" {`,
		"orchestrator.TestADeadLetterOfNobodyKnowsWhatEndsNothing",
	},
	{
		"E4", "a message that nobody can read fails whom it names", "orchestrator/reconcile.go",
		`		_, err = r.look(ctx, stands, "")
		return err
	case task.Run`, `		_, err = r.look(ctx, stands, reasonOf(d))
		return err
	case task.Run`,
		"orchestrator.TestADeadLetterOfNobodyKnowsWhatEndsNothing",
	},
	{
		"E4", "an execution fails although its claim may still be granted", "claim/examine.go",
		`	return next, FoundOver, true`, `	return next, FoundOver, false`,
		"orchestrator.TestADeadLetterIsAHintToReadTheClaim",
	},
	{
		"E4", "the failed ones behind the first hundred are never looked at", "orchestrator/reconcile.go",
		`	r.failed = next
`, `	_ = next
`,
		"orchestrator.TestFailedExecutionsAreLookedAtInTurn",
	},
	{
		"E4", "a dead letter is forgotten while the store is away", "orchestrator/reconcile.go",
		`				return fmt.Errorf("dead letter %s: %w", d.MessageID, err)
`, `				r.Log.Warn(err.Error())
`,
		"orchestrator.TestADeadLetterIsNotForgottenWhileTheStoreIsAway",
	},
	{
		"E4", "a dead letter that nothing fits keeps the others waiting", "orchestrator/reconcile.go",
		`errors.Is(err, message.ErrRefused) || errors.Is(err, errLaterRun) {`, `errors.Is(err, message.ErrRefused) {`,
		"orchestrator.TestADeadLetterThatNothingFitsKeepsNoOtherWaiting",
	},
	{
		"E5", "what is alive is sent again too", "orchestrator/reconcile.go",
		`	if found != claim.FoundNobody {
		return nil
	}
	return r.redispatch(ctx, stands)`, `	return r.redispatch(ctx, stands)`,
		"orchestrator.TestAnOldExecutionIsEndedByItsClaimOrSentAgain",
	},
	{
		"E5", "every process sends again", "orchestrator/reconcile.go",
		`	if errors.Is(err, message.ErrExists) || errors.Is(err, message.ErrConflict) {
		return nil // another process counts it, and sends
	}
	if err != nil {
		return err
	}
	copied`, `	copied`,
		"orchestrator.TestOfSeveralProcessesAtOnceOneSendsAgain",
	},
	{
		"E5", "a re-dispatch waits as long every time", "execution/redispatch.go",
		`if wait *= 2; wait`, `if wait`,
		"execution.TestReDispatchesBackOffByDoubling",
	},
	{
		"E6", "an entry is forgotten although its task was not sent", "orchestrator/dispatch.go",
		`	if err := o.Send(ctx, m); err != nil {
		return fmt.Errorf("send task %s: %w", m.ID, err)
	}
	if err := o.Store.Sent`, `	_ = o.Send(ctx, m)
	if err := o.Store.Sent`,
		"orchestrator.TestTheRelaySendsWhatTheQueueDidNotTake",
	},
	{
		"E6", "the relay begins with the same hundred every time", "orchestrator/dispatch.go",
		`if from, err = o.relay(ctx, from); err`, `if _, err = o.relay(ctx, from); err`,
		"orchestrator.TestWhatCannotBeSentKeepsNothingElseWaiting",
	},
	{
		"E7", "a replay after an unknown outcome needs no assertion", "execution/operator.go",
		`case stands.Uncertain() && !asserted:`, `case stands.Uncertain() && !asserted && stands.Run > 1<<20:`,
		"execution.TestWhatAnOperatorMayDoInEveryState",
	},
	{
		"E7", "a replay does not wait for the last call", "execution/operator.go",
		`now.Before(stands.EndedAt.Add(settle)):`, `now.Before(stands.EndedAt):`,
		"execution.TestAnUncertainFailureIsNotReplayedTooSoon",
	},
	{
		"E7", "an execution is resolved and its claim is not", "orchestrator/operate.go",
		`closed, err := o.Claims.Resolve(ctx, id, stands.Execution.Run, result)`, `closed, err := claim.Claim{Run: stands.Execution.Run, Result: &result}, error(nil)`,
		"orchestrator.TestResolveClosesClaimAndExecutionWithoutACall",
	},
	{
		"E8", "a cancel does not ask for the version that was seen", "orchestrator/operate.go",
		`if err == nil && !match.given {`, `if err == nil && !match.given && id == "" {`,
		"orchestrator.TestCancelTakesTheVersionThatWasSeen",
	},
	{
		"E8", "a cancelled execution's claim is left to whoever comes", "orchestrator/operate.go",
		`	o.withdraw(ctx, e)
`, ``,
		"orchestrator.TestCancelTakesTheVersionThatWasSeen",
	},
	{
		"E8", "a cancelled part runs on in its orchestration", "orchestrator/operate.go",
		`	o.withdraw(ctx, e)
	o.joinNow(ctx, e)
`, `	o.withdraw(ctx, e)
`,
		"orchestrator.TestWhatAnOperatorEndsIsJoinedAtOnce",
	},
	{
		"E4", "a part that recovered is not joined", "orchestrator/reconcile.go",
		`	return r.joinEnded(ctx, event.ExecutionID())`, `	return nil`,
		"orchestrator.TestAPartThatTheReconcilerRecoversIsJoined",
	},
	{
		"E8", "a cancelled execution is completed after all", "execution/next.go",
		`		return record(stands, Note{At: now, What: "completed after cancel", Run: c.Run, Fence: c.Fence, Detail: c.ResultRef})`,
		`		return change, Transition`,
		"execution.TestEveryEventInEveryState",
	},
	{
		"O3", "the list is in the order of changes", "orchestrator/index.go",
		`return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ExecutionID, b.ExecutionID))`, `return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ExecutionID, b.ExecutionID))`,
		"orchestrator.TestTheNewestExecutionsAreListedFirstAsTheyStand",
	},
	{
		"O4", "a dead letter whose outcome is unknown is said to be safe", "orchestrator/verdict.go",
		`		return OutcomeUnknown, "it failed with " + stands.Failure.Reason`, `		return Safe, "it failed with " + stands.Failure.Reason`,
		"orchestrator.TestADeadLetterIsToldWhatAReplayWouldComeTo",
	},
	{
		"O1", "a key makes an execution every time", "orchestrator/create.go",
		`		id = base64.RawURLEncoding.EncodeToString(digest[:])`, `		id = base64.RawURLEncoding.EncodeToString(digest[:1]) + rand.Text()`,
		"orchestrator.TestAKeyMakesOneExecution",
	},
	{
		"O1", "another request under a key is answered with the first", "orchestrator/create.go",
		`	case !stands.Execution.SameRequest(e):
		o.fail(w, r, problem{KeyReused, "this key or executionId was used for another request: choose a new one"})
`, ``,
		"orchestrator.TestAKeyMakesOneExecution",
	},
	{
		"O2", "a creation that did not happen is answered as done", "orchestrator/create.go",
		`	case errors.Is(err, message.ErrNotFound): // not applied, or not at this replica yet
		o.fail(w, r, errors.Join(cause, message.ErrTransient))
`, `	case errors.Is(err, message.ErrNotFound):
		o.answer(w, r, http.StatusCreated, execution.Stored{Execution: e})
`,
		"orchestrator.TestALostAnswerToTheCreationIsAnsweredFromWhatStands",
	},
}
