package variants

// ofEvidence are the variants of what evidence promises.
var ofEvidence = []variant{
	{
		"V1", "a record without its residual risk is written", "evidence/run.go",
		`if missing := record.missing(); len(missing) > 0 {`, `if missing := record.missing(); len(missing) > 1 {`,
		"evidence.TestARecordWithoutOneOfItsTenFieldsIsIncomplete",
	},
	{
		"V1", "nobody looks for what a written record lacks", "evidence/verify.go",
		`if missing := loose.missing(); len(missing) > 0 {`, `if missing := loose.missing(); len(missing) > 1 {`,
		"evidence.TestAForgedChainMustStillAgreeWithItself",
	},
	{
		"V2", "the class that a record states is believed", "evidence/verify.go",
		`derived != r.Observed {`, `derived != r.Observed && r.Observed == "" {`,
		"evidence.TestAForgedChainMustStillAgreeWithItself",
	},
	{
		"V2", "the projector's own word for it is not compared", "evidence/class.go",
		`	if class != last.Reported {
		return Unclassified
	}
`, ``,
		"evidence.TestTheClassFollowsFromWhatTheStoreHeld",
	},
	{
		"V2", "an effect without a receipt counts as applied", "evidence/class.go",
		`	case stands == nil:
		return Unclassified
`, `	case stands == nil && after.has(sent, before):
		return Applied
	case stands == nil:
		return Unclassified
`,
		"evidence.TestTheClassFollowsFromWhatTheStoreHeld",
	},
	{
		"V3", "no hash is computed again", "evidence/verify.go",
		`computed != hash {`, `computed != hash && hash == "" {`,
		"evidence.TestNoValueCanBeChanged",
	},
	{
		"V3", "nobody looks at the record before", "evidence/verify.go",
		`if previous != v.previous {`, `if previous != v.previous && previous == "" {`,
		"evidence.TestNoRecordCanBeRemovedAddedOrMoved",
	},
	{
		"V4", "a chain without an end to compare it with passes", "evidence/verify.go",
		`	if manifest == nil {
		if head == "" {`, `	if manifest == nil {
		if head == "" && v.Head == "" {`,
		"evidence.TestAChainThatIsComputedAnewFailsByItsHead",
	},
	{
		"V4", "the head that was told is not compared", "evidence/verify.go",
		`if head != "" && head != v.Head {`, `if head != "" && v.Head == "" {`,
		"evidence.TestAChainThatIsComputedAnewFailsByItsHead",
	},
	{
		"V5", "all runs have one folder", "evidence/run.go",
		`r.dir = filepath.Join(dir, r.name)`, `r.dir = filepath.Join(dir, "run")`,
		"evidence.TestARunHasOneWriterAndAFolderOfItsOwn",
	},
	{
		"V6", "a probe may be left out", "evidence/verify.go",
		`if found != 1 {`, `if found > 1 {`,
		"evidence.TestAForgedChainMustStillAgreeWithItself",
	},
	{
		"V7", "a source that is due makes a run fail", "evidence/verify.go",
		`return len(r.Problems) == 0
}`, `return len(r.Problems) == 0 && len(r.Notices(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))) == 0
}`,
		"evidence.TestAWholeRunPasses",
	},
	{
		"V8", "an invalid run contradicts what its probes saw", "evidence/page.go",
		`shown := len(v.Invalid()) == 0 && `, `shown := `,
		"evidence.TestAnInvalidRunSaysSoFirstAndDecidesNothing",
	},
	{
		"V8", "a verdict that does not hold is passed over", "evidence/verify.go",
		`if record.Preflight != nil && !record.Preflight.Holds {`, `if record.Preflight != nil && record.Preflight.Reliance == "" {`,
		"evidence.TestAnInvalidRunSaysSoFirstAndDecidesNothing",
	},
}
