package tsgs3vm

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
)

// A model of fixed features has converged when the stream ends: as many steps
// again do not change its norm by more than the tolerance allows.
func TestFixedFeaturesConverge(t *testing.T) {
	xs := algostest.Moons(120, algos.Classify, 3)
	options, err := FRS3VM.WithPreset("default", map[string]string{"features": "128", "block": "32", "c": "100", "gamma": "5"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := FRS3VM.New(algos.Env{Seed: 2}, options)
	if err != nil {
		t.Fatal(err)
	}
	algostest.Feed(t, l, xs...)
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := l.(*Learner).solver.(*sgd)
	before := s.squared()
	s.settle(l.(*Learner), settleSteps)
	if now := s.squared(); math.Abs(now-before) > 2*settleTol*before {
		t.Errorf("|f|² is %g at the end, %g after %d steps more", before, now, settleSteps)
	}
}
