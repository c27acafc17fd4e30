package cosmos

import (
	"math"
	"strconv"
)

// Request units. The service does not publish its formula; these follow its
// documented examples (a point read of 1 KB is 1, of 100 KB about 10; creating
// costs about five times that, replacing about ten) and are the same every time,
// so that a budget can be tested.

func readCharge(bytes int) float64 {
	return cents(1 + 0.09*extraKilobytes(bytes))
}

// writeCharge is that of taking old's place by new; either may be nil.
func writeCharge(old, new *document, s settings) float64 {
	charge := 0.0
	for _, d := range []*document{old, new} {
		if d == nil {
			continue
		}
		charge += 5 * (1 + 0.09*extraKilobytes(len(d.text)))
		if !s.unindexed {
			charge += 0.04 * float64(len(d.body().members))
		}
	}
	return cents(charge)
}

// queryCharge is that of one page.
func queryCharge(examined, bytes int) float64 {
	return cents(2.3 + 0.05*float64(examined) + 0.09*float64(bytes)/1024)
}

func extraKilobytes(bytes int) float64 {
	return math.Max(0, math.Ceil(float64(bytes)/1024)-1)
}

func cents(f float64) float64 { return math.Round(f*100) / 100 }

func parseUint(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}
