// Package siftplan makes the plans by which the command sift chooses records: a trainer
// that imports it publishes one with each version, when records come that were sifted.
package siftplan

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// Rule says by what a record is judged.
type Rule string

// The rules.
const (
	// Hinge looks at the margin y·f, or at |f| where there is no label.
	Hinge Rule = "hinge"
	// Uncertain looks at |f|, with a label or without.
	Uncertain Rule = "uncertain"
	// Uniform forwards each record with the least probability.
	Uniform Rule = "uniform"
)

// Margin returns what the rule looks at for a decision f on a record whose label
// is y, ±1, or 0 where it is not known.
func (r Rule) Margin(f, y float64) float64 {
	if r == Hinge && y != 0 {
		return y * f
	}
	return math.Abs(f)
}

// edges part margins into bins: bin b holds those from edges[b-1] up to, but
// without, edges[b].
var edges = [...]float64{-1, 0, .5, .8, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3}

// Bins is the number of bins of margins.
const Bins = len(edges) + 1

// bin returns that of a margin, 0 for NaN.
func bin(m float64) int {
	b := 0
	for b < len(edges) && m >= edges[b] {
		b++
	}
	return b
}

const (
	// DefaultBand is S where no plan has come.
	DefaultBand = 0.5
	// DefaultLeast is the probability for records without interest, where a worker
	// is not told another. It is never 0: what the model is sure of would never be
	// seen again, not even when the stream has changed.
	DefaultLeast = 0.05
)

// Plan says with which probability a record is forwarded. It comes with each
// version of a model.
type Plan struct {
	// S, from 0 to DefaultBand: records with a margin below 1+S are all forwarded.
	S float64
	// Kappa is not 0 where the trainer cannot take all of them. P then holds the
	// probabilities, by the bin of the margin, and S says nothing.
	Kappa float64
	P     [Bins]float64
}

// Probability returns the probability for a record with margin m, where least is
// that for records without interest. A margin that is NaN is of interest.
func (p *Plan) Probability(rule Rule, m, least float64) float64 {
	switch {
	case rule == Uniform:
		return least
	case p.Kappa != 0:
		return p.P[bin(m)]
	case m >= 1+p.S:
		return least
	}
	return 1
}

// Measures returns p as measures of a stream.Update.
func (p *Plan) Measures() []stream.Measure {
	list := []stream.Measure{{Name: "sift_s", Value: p.S}, {Name: "sift_kappa", Value: p.Kappa}}
	if p.Kappa != 0 {
		for b, v := range p.P {
			list = append(list, stream.Measure{Name: fmt.Sprintf("sift_p_%02d", b), Value: v})
		}
	}
	return list
}

// PlanOf returns the plan among the measures of a stream.Update; ok is false where
// there is none. What is no plan is an error.
func PlanOf(list []stream.Measure) (p Plan, ok bool, err error) {
	at := func(name string) float64 {
		for _, m := range list {
			if m.Name == name {
				return m.Value
			}
		}
		return math.NaN()
	}
	s, kappa := at("sift_s"), at("sift_kappa")
	if math.IsNaN(s) && math.IsNaN(kappa) {
		return p, false, nil
	}
	if !(s >= 0 && s <= DefaultBand) || !(kappa >= 0) || math.IsInf(kappa, 1) {
		return p, true, fmt.Errorf("a plan with sift_s %g and sift_kappa %g", s, kappa)
	}
	p = Plan{S: s, Kappa: kappa}
	if kappa == 0 {
		return p, true, nil
	}
	for b := range p.P {
		name := fmt.Sprintf("sift_p_%02d", b)
		if p.P[b] = at(name); !(p.P[b] >= sift.LeastP && p.P[b] <= 1) {
			return Plan{}, true, fmt.Errorf("a plan with %s %g", name, p.P[b])
		}
	}
	return p, true, nil
}
