// Package version says which version of the program is running.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release may be set by the linker, where a build has no version control to
// ask: -ldflags "-X github.com/streamsvm/streamsvm/internal/version.release=v1.2.3".
var release string

// String is the version of the running program, from the linker or from its
// build information.
var String = func() string {
	if release != "" {
		return release
	}
	bi, ok := debug.ReadBuildInfo()
	if !ok || bi.Main.Version == "" {
		return "devel"
	}
	return bi.Main.Version
}()

// Text describes the program in a line.
func Text() string {
	s := fmt.Sprintf("streamsvm %s (%s, %s/%s)", String, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range bi.Settings {
			if kv.Key == "vcs.revision" {
				s += " " + kv.Value
			}
		}
	}
	return s
}
