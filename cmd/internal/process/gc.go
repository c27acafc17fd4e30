package process

import "runtime/debug"

// gcPercent lets the heap grow to five times what lives in it before it is collected,
// and not to twice. What lives is a few megabytes, so at twice a busy process is at
// collecting all the time: a quarter of the orchestrator's processor time.
const gcPercent = 400

// TuneGC makes collections rarer, unless the environment says how often: GOGC, and
// GOMEMLIMIT where memory is bounded, are read by Go's runtime itself.
func TuneGC(env Environment) {
	if env.Get("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
