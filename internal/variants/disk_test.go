package variants

// ofDisk are the variants of what keeps an emulator's data, whose promises no switch
// can break: nobody but its tests may see it broken.
var ofDisk = []variant{
	{
		"D1", "a group is answered before the disk has it", "../emulator/disk/log.go",
		`	if err := g.file.Sync(); err != nil {
		return err
	}
	l.total`, `	l.total`,
		"../emulator/disk.TestNothingIsAnsweredBeforeItIsOnDisk",
	},
	{
		"D1", "who asks while a group is written is answered at once", "../emulator/disk/store.go",
		`if s.err == nil && idle && s.inFlight == 0 {`, `if s.err == nil && idle {`,
		"../emulator/disk.TestNothingIsAnsweredBeforeItIsOnDisk",
	},
	{
		"D2", "a group is cut in the middle of operations", "../emulator/disk/commit.go",
		`	s.gate.Lock()
	defer s.gate.Unlock()
`, ``,
		"../emulator/disk.TestNoOperationIsThereInHalf",
	},
	{
		"D2", "half of an operation that failed is written", "../emulator/disk/store.go",
		`	s.pending = group{}
`, ``,
		"../emulator/disk.TestAnOperationThatCannotBeWrittenWholeIsNotWritten",
	},
	{
		"D2", "what a crash has left of a group is taken for it", "../emulator/disk/segment.go",
		`return records, crc32.Checksum(records, castagnoli) == sum`, `return records, crc32.Checksum(records, castagnoli) == sum || number > 0`,
		"../emulator/disk.TestALastGroupThatIsNotWholeIsCutOff",
	},
	{
		"D3", "cleaning brings back what was deleted", "../emulator/disk/clean.go",
		`if r.kind == recordPut && l.index.has(`, `if r.kind == recordPut && written > groupSize || l.index.has(`,
		"../emulator/disk.TestWhatIsLoadedIsWhatWasPutLast",
	},
	{
		"D3", "a segment is given up whose values nobody has put anew", "../emulator/disk/clean.go",
		`			l.front = append(l.front, c.rest[:size]...)
`, ``,
		"../emulator/disk.TestWhateverACrashLeavesIsWhole",
	},
	{
		"D4", "two processes have the same folder open", "../emulator/disk/lock_unix.go",
		`		err = errLocked
`, `		err = nil
`,
		"../emulator/disk.TestAFolderThatCannotBeUsedIsRefusedWithCauseAndRemedy",
	},
	{
		"D4", "what others have written is read", "../emulator/disk/open.go",
		`case g.schema != l.schema:`, `case g.schema == "":`,
		"../emulator/disk.TestAFolderThatCannotBeUsedIsRefusedWithCauseAndRemedy",
	},
	{
		"D4", "damage is cut off like what a crash leaves", "../emulator/disk/open.go",
		`case last.later(tail[end:], next):`, `case last.later(tail[end:], next) && end == 0:`,
		"../emulator/disk.TestDamageIsRefused",
	},
	{
		"D5", "what could not be written is answered", "../emulator/disk/commit.go",
		`				s.Fail(err)
				return
`, `				s.Fail(err)
`,
		"../emulator/disk.TestADiskThatTakesNoMoreEndsAllAnswers",
	},
	{
		"D6", "operations begin whether there is room or not", "../emulator/disk/store.go",
		`for s.err == nil && len(s.pending.records) >= maxPending {`, `for s.err == nil && len(s.pending.records) >= maxPending<<8 {`,
		"../emulator/disk.TestOperationsBeginWhenThereIsRoom",
	},
	{
		"D7", "a log that is written to for long grows", "../emulator/disk/clean.go",
		`const haste = 4`, `const haste = 1`,
		"../emulator/disk.TestTheLogIsBoundedByWhatIsKept",
	},
	{
		"D7", "a log that is opened often grows", "../emulator/disk/clean.go",
		`	for l.overgrown() {
`, `	for l.overgrown() && l.schema == "" {
`,
		"../emulator/disk.TestAStoreIsOpenedAgainAndAgain",
	},
}
