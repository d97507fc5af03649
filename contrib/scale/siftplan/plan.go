// Package siftplan makes the plans by which the command sift chooses records: a trainer
// that imports it publishes a plan with each version if its records were sifted.
package siftplan

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// Rule is the criterion by which a record is judged.
type Rule string

// The rules.
const (
	// Hinge uses the margin y·f, or |f| if there is no label.
	Hinge Rule = "hinge"
	// Uncertain uses |f|, with a label or without.
	Uncertain Rule = "uncertain"
	// Uniform forwards each record with the least probability.
	Uniform Rule = "uniform"
)

// Margin returns the quantity that the rule uses, for a decision f on a record with
// label y, ±1, or 0 if it is unknown.
func (r Rule) Margin(f, y float64) float64 {
	if r == Hinge && y != 0 {
		return y * f
	}
	return math.Abs(f)
}

// edges divide margins into bins: bin b holds margins from edges[b-1] up to, but not
// including, edges[b].
var edges = [...]float64{-1, 0, .5, .8, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3}

// Bins is the number of bins of margins.
const Bins = len(edges) + 1

// bin returns the bin of a margin, 0 for NaN.
func bin(m float64) int {
	b := 0
	for b < len(edges) && m >= edges[b] {
		b++
	}
	return b
}

const (
	// DefaultBand is S until a plan arrives.
	DefaultBand = 0.5
	// DefaultLeast is the default probability for records without interest. It is never
	// 0: otherwise records that the model is sure of would never be seen again, not even
	// after the stream has changed.
	DefaultLeast = 0.05
)

// Plan gives the probability with which a record is forwarded. It comes with each
// version of a model.
type Plan struct {
	// S, from 0 to DefaultBand: records with a margin below 1+S are all forwarded.
	S float64
	// Kappa is not 0 if the trainer cannot take all of them. P then holds the
	// probabilities, by the bin of the margin, and S has no meaning.
	Kappa float64
	P     [Bins]float64
}

// Probability returns the probability for a record with margin m; least is the
// probability for records without interest. A margin of NaN is of interest.
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

// PlanOf returns the plan among the measures of a stream.Update; ok is false if there
// is none. Measures that are not a valid plan are an error.
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
