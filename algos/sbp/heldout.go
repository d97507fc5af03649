package sbp

import (
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// early accounts for the regularising effect of making only a few updates, as on a
// stream: a model with loss weight c is then about as good as the optimum for c/early.
// It is the first value tried: on ijcnn1, a9a and magic04 it leads to the same choices
// as full training.
const early = 4

// HeldOut implements algos.CrossValidator with the optima of the problems with a
// regularised bias.
func (l *Learner) HeldOut(xs []*stream.Example, fold []int, cs []float64) []float64 {
	weights := make([]float64, len(cs))
	for i, c := range cs {
		weights[i] = c / early
	}
	bias := l.opt.Bias
	if l.opt.Intercept {
		bias = max(bias, 1)
	}
	vecs := samplers.Vecs(xs)
	f := l.opt.Func(bias, vecs)
	b := kernel.New(f)
	if kernel.SparsePays(vecs) {
		b = kernel.NewSparse(f)
	}
	return hinge.HeldOut(b, xs, fold, weights)
}
