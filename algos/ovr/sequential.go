package ovr

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// sequential is a learner whose classifiers are algos.Sequential.
type sequential struct{ *learner }

// Follow implements algos.Sequential: dst has a score for each class of each example.
func (l *sequential) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	ctx = context.WithoutCancel(ctx)
	for _, x := range xs {
		if err := l.check(x); err != nil {
			return 0, 0, err
		}
	}
	n := len(l.classifiers)
	did := make([][2]int, n)
	err = l.each(func(k int, h *classifier) error {
		copies, list := make([]stream.Example, len(xs)), make([]*stream.Example, len(xs))
		for i, x := range xs {
			copies[i] = *x
			relabel(&copies[i], k)
			list[i] = &copies[i]
		}
		first := !h.begun
		f := make([]float64, len(xs))
		learned, steps, err := h.Learner.(algos.Sequential).Follow(ctx, f, list)
		did[k] = [2]int{learned, steps}
		h.begun = h.begun || steps > 0
		for i, x := range xs {
			if !x.Labelled {
				continue
			}
			if dst[i*n+k] = f[i]; first {
				dst[i*n+k], first = Blank, false
			}
		}
		return err
	})
	for _, x := range xs {
		l.remember(x)
	}
	for _, d := range did {
		learned = max(learned, d[0])
		steps = max(steps, d[1])
	}
	return learned, steps, err
}
