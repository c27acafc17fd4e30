package main

import "testing"

func TestGarbageIsBoundedByMoreThanWhatIsAlive(t *testing.T) {
	const megabyte = 1 << 20
	for live, want := range map[uint64]int{
		0: 6400, 5 * megabyte: 1280, 63 * megabyte: 101, 64 * megabyte: 100, 192 * megabyte: 100, 384 * megabyte: 50, 1600 * megabyte: 12, 5000 * megabyte: 10,
	} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MB alive: %d percent, want %d", live/megabyte, got, want)
		}
	}
}
