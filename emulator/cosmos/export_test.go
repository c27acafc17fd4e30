package cosmos

import "oneeffect/emulator/control"

// Keeper is where a test has an account written.
type Keeper = keeper

// OpenOn opens the account that a keeper of a test holds.
func OpenOn(h *control.Hub, o Options, kept Keeper) (*Server, error) { return openOn(h, o, kept) }
