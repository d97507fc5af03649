package scs_test

import (
	"testing"

	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/scs"
)

// The presets are tested with the registry.
func TestContract(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"capped":  {"initial": "64", "max_sample": "150", "c": "10"},
		"window":  {"initial": "64", "max_sample": "150", "full": "window", "t_max": "40", "c": "10"},
		"budget":  {"initial": "64", "budget": "60", "c": "10"},
		"holding": {"initial": "64", "t_max": "32", "gain": "1", "c": "10"},
		"waiting": {"initial": "64", "blocks": "1", "block": "16", "c": "10"},
	} {
		t.Run(name, func(t *testing.T) { algostest.Run(t, scs.Spec, algostest.With(options), algostest.Examples(500)) })
	}
}
