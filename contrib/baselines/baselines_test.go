package baselines

import (
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/testkit/learnertest"
)

// Every baseline passes the conformance suite, in every preset.
func TestConformance(t *testing.T) { learnertest.Conformance(t, specs) }

func TestOptions(t *testing.T) { learnertest.Options(t, specs) }

// The learners are registered, last. Without this package, the error for each of
// them says what is missing.
func TestRegistered(t *testing.T) {
	all := registry.All
	defer func() { registry.All = all }()
	core := len(all) - len(specs)
	for i, s := range all {
		if registry.IsBaseline(s.Name) != (i >= core) || i >= core && s.Name != specs[i-core].Name {
			t.Errorf("learner %d of %d is %s", i, len(all), s.Name)
		}
	}
	registry.All = all[:core]
	for _, s := range specs {
		if _, err := registry.Lookup(s.Name); err == nil || !strings.Contains(err.Error(), "is a baseline, and this program has no baselines") || !strings.Contains(err.Error(), "contrib/baselines") {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}
