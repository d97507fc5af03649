//go:build !cref

// Package cref is empty without the build tag cref, so that nothing in the
// module needs a C compiler.
package cref
