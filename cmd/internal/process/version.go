package process

import "runtime/debug"

// version is stamped by the linker, see Dockerfile; nothing else sets it.
var version string

// Version is what this program was built of: what was stamped, or what Go knows of
// the checkout.
func Version() string {
	if version != "" {
		return version
	}
	if built, ok := debug.ReadBuildInfo(); ok {
		return built.Main.Version
	}
	return ""
}
