// Package version has the version of the running program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release may be set by the linker, for builds without version control information:
// -ldflags "-X github.com/streamsvm/streamsvm/internal/version.release=v1.2.3".
var release string

// String is the version of the running program, from the linker or from the build
// information.
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

// Text describes the program in one line.
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
