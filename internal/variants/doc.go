// Package variants breaks this repository on purpose. Every promise of the guards,
// of the story, of the evidence and of the store under the emulators has at least one
// broken variant: a few words of its code changed. The test that carries the promise's
// number has to fail on it, or the promise is held by nobody.
//
//	promise ─▶ broken variant ─▶ the test that fails
//
// The tree is not touched: a variant is an overlay of the build. All of it is run
// by `make variants`, since each variant is a build of its own.
package variants
