package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// What garbage may lie around before it is collected. Go's own rule, as much as is alive, doubles a process that holds
// a million messages; a fixed limit would have it collect without end once the messages alone reach it.
const (
	garbageLeast = 64 << 20  // so much may always lie around: a small process would collect for every few messages
	garbageFree  = 192 << 20 // up to here Go's own rule holds
	garbageShare = 10        // percent of what is alive, where that is more
)

// boundGarbage applies the rule after every collection, for as long as the process lives. A GOGC in the environment
// stays in force instead.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		afterCollection(100)
	}
}

// afterCollection has the next collection set the percentage anew, by leaving it something to collect.
func afterCollection(percent int) {
	runtime.AddCleanup(new([16]byte), func(before int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		now := garbagePercent(live[0].Value.Uint64())
		if now != before {
			debug.SetGCPercent(now)
		}
		afterCollection(now)
	}, percent)
}

func garbagePercent(live uint64) int {
	switch {
	case live < garbageLeast:
		return int(garbageLeast * 100 / max(live, 1<<20))
	case live <= garbageFree:
		return 100
	}
	return int(max(garbageShare, garbageFree*100/live))
}
