package predictor

import (
	"cmp"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/stream"
)

// Contribution is what one feature of an example adds to its decision: its weight
// times its preprocessed value.
type Contribution struct {
	Feature int // from 0, in the order of the vector
	Value   float64
}

// Contributions returns what the features of x add to Decision(x), largest
// magnitude first and without zeros, and the constant term. Their sum is the
// decision, up to rounding. They are known for linear models of two classes or a
// regression whose features are not hashed; for others ok is false.
func (p *Predictor) Contributions(x stream.Vec) (list []Contribution, constant float64, ok bool) {
	m, linear := p.pipe.Model.(*model.Linear)
	if !linear || p.HashDim() > 0 || p.Classes() > 2 {
		return nil, 0, false
	}
	w := m.Weights()
	x = p.pipe.Transform.Apply(x)
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		if j >= len(w) {
			break
		}
		if c := float64(v) * w[j]; c != 0 {
			list = append(list, Contribution{j, c})
		}
	}
	slices.SortStableFunc(list, func(a, b Contribution) int { return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)) })
	return list, m.Bias(), true
}
