//go:build !core

package main

import "github.com/streamsvm/streamsvm/contrib/registry"

// This file has what a build with -tags core leaves out: no other imports contrib.

func init() {
	newRegistry = func(o registryOptions) (schemaRegistry, error) { return registry.New(registry.Options(o)) }
}
