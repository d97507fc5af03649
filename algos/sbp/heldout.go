package sbp

import (
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// early is how many times smaller than c the weight of the losses is at whose
// optimum a model does about as well as that of a stream's few updates, which
// are one more regularisation. The first value tried: on ijcnn1, a9a and magic04 it
// chooses as learning anew does.
const early = 4

// HeldOut implements algos.CrossValidator, by the optima of the problems. The
// bias is regularised there.
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
	if kernel.SparsePays(f, vecs) {
		b = kernel.NewSparse(f)
	}
	return hinge.HeldOut(b, xs, fold, weights)
}
