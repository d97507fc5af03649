package tsgs3vm

import (
	"fmt"
	"maps"
	"testing"

	"github.com/streamsvm/streamsvm/algos/algostest"
)

// The presets are tested with the registry.
func TestConformance(t *testing.T) {
	small := map[string]string{"features": "128", "block": "32", "recent": "100", "labels": "300"}
	with := func(more ...string) map[string]string {
		out := maps.Clone(small)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for _, c := range []struct {
		options map[string]string
	}{
		{with("batch-unlabelled", "20", "gamma", "2", "c", "10", "cluster", "3", "rho", "0", "recent", "70")},
		{with("gamma", "2", "c", "10", "rho", "0.3", "serve", "semi", "labels", "60", "keep", "window", "batch-unlabelled", "16")},
		{with("kernel", "laplacian", "labels", "50", "keep", "balanced", "cache", "0")},
		{with("solver", "sgd", "draw", "fresh", "gamma", "2", "c", "auto", "lambda", "0.1", "batch-unlabelled", "32", "window", "40")},
	} {
		t.Run(fmt.Sprint(c.options), func(t *testing.T) {
			accuracy := 0.93
			if c.options["solver"] == "sgd" {
				accuracy = 0.85
			}
			algostest.Run(t, Spec, algostest.With(c.options), algostest.Accuracy(accuracy), algostest.Examples(450))
		})
	}
}
