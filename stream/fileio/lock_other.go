//go:build !unix

package fileio

import "os"

func lock(*os.File) error { return nil }
