package sbp

import (
	"fmt"
	"testing"

	"github.com/streamsvm/streamsvm/algos/algostest"
)

// The presets are put to the same test by package registry.
func TestConformance(t *testing.T) {
	for _, options := range []map[string]string{
		{"nu": "0.01", "intercept": "false", "gamma": "1", "buffer": "100", "frozen": "40", "restart": "0.1"},
		{"buffer": "120", "keep": "reservoir", "classes": "coin", "every": "7", "updates": "9", "cache": "0", "lambda": "0.001"},
		{"buffer": "90", "keep": "balanced", "kernel": "laplacian", "c": "10", "restart": "0"},
		{"buffer": "80", "kernel": "poly", "gamma": "1", "rate": "3", "final": "2", "bias": "1", "intercept": "false"},
	} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			algostest.Run(t, Spec, algostest.With(options), algostest.Accuracy(.85), algostest.Seed(2))
		})
	}
}
