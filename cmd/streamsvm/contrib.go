//go:build !core

package main

import (
	_ "github.com/streamsvm/streamsvm/contrib/baselines" // registers its learners
	"github.com/streamsvm/streamsvm/contrib/registry"
)

// A build with -tags core leaves this file out. No other file imports contrib.

func init() {
	newRegistry = func(o registryOptions) (schemaRegistry, error) { return registry.New(registry.Options(o)) }
}
