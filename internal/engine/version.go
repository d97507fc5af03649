package engine

import "runtime/debug"

// release may be set by the linker, where a build has no version control to
// ask: -ldflags "-X github.com/streamsvm/streamsvm/internal/trainer.release=v1.2.3".
var release string

// Version is the version of the running program, from the linker or from its
// build information.
var Version = func() string {
	if release != "" {
		return release
	}
	bi, ok := debug.ReadBuildInfo()
	if !ok || bi.Main.Version == "" {
		return "devel"
	}
	return bi.Main.Version
}()
