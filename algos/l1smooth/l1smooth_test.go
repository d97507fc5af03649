package l1smooth_test

import (
	"testing"

	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/l1smooth"
)

func TestConformance(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"l2":        {"mu": "0"},
		"cg":        {"direct": "0"},
		"reservoir": {"buffer": "200", "keep": "reservoir", "every": "20"},
		"window":    {"buffer": "100", "every": "7"},
		"growing":   {"buffer": "1200", "keep": "growing", "kkt": "faithful"},
	} {
		t.Run(name, func(t *testing.T) {
			algostest.Run(t, l1smooth.Spec, algostest.With(options))
		})
	}
}
