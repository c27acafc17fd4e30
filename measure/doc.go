// Package measure is what the two benchmarks share, that of the emulators and that of the worker: processes that are
// looked at from outside, and a table of medians with their spread. It knows nothing of either side. Linux only, for
// what /proc tells.
package measure
