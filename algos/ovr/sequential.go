package ovr

import (
	"context"
	"slices"

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
		if _, ok := h.Learner.(algos.Passing); !ok {
			h.copies = nil // the learner may keep them
		}
		h.copies, h.list, h.f = slices.Grow(h.copies[:0], len(xs)), h.list[:0], slices.Grow(h.f[:0], len(xs))
		for i, x := range xs {
			h.copies = append(h.copies, *x)
			relabel(&h.copies[i], k)
			h.list = append(h.list, &h.copies[i])
		}
		first, f := !h.begun, h.f[:len(xs)]
		learned, steps, err := h.Learner.(algos.Sequential).Follow(ctx, f, h.list)
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
