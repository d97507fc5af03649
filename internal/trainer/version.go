package trainer

import "runtime/debug"

// Version is the version of the running program, from its build information.
var Version = func() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok || bi.Main.Version == "" {
		return "devel"
	}
	return bi.Main.Version
}()
