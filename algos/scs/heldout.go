package scs

import (
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// HeldOut implements algos.CrossValidator.
func (l *Learner) HeldOut(xs []*stream.Example, fold []int, cs []float64) []float64 {
	return hinge.HeldOut(l.opt.basis(samplers.Vecs(xs)), xs, fold, cs)
}
