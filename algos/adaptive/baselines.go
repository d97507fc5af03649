package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// lastLabel predicts the label of the example before. It is hard to beat where labels come in
// runs and arrive promptly, and worthless where they arrive late.
type lastLabel struct {
	unbatched
	y float64 // 0: none yet
}

func (e *lastLabel) predict(*input) score { return score{e.y, e.y != 0} }

func (e *lastLabel) learn(in *input, _ score) error {
	e.y = in.x.Y
	return nil
}

func (e *lastLabel) function() function {
	if e.y == 0 {
		return nil
	}
	return constant(e.y)
}

func (e *lastLabel) fields(f *state.Fields) {
	f.Float64("last", &e.y)
	if f.Decoding() && f.Err() == nil && math.Abs(e.y) != 1 && e.y != 0 {
		f.Fail("last", fmt.Errorf("label %g", e.y))
	}
}

// baseRate predicts the log odds of the classes so far (Laplace's rule of succession).
type baseRate struct {
	unbatched
	n, positive float64
}

func (e *baseRate) logOdds() float64 {
	return linear.Log((e.positive + 1) / (e.n - e.positive + 1))
}

func (e *baseRate) predict(*input) score { return score{e.logOdds(), e.n > 0} }

func (e *baseRate) learn(in *input, _ score) error {
	n := min(in.x.Count(), mostCount)
	e.n += n
	if in.x.Y > 0 {
		e.positive += n
	}
	return nil
}

func (e *baseRate) function() function {
	if e.n == 0 {
		return nil
	}
	return constant(e.logOdds())
}

func (e *baseRate) fields(f *state.Fields) {
	f.Float64("examples", &e.n)
	f.Float64("positive", &e.positive)
	if f.Decoding() && f.Err() == nil && !(e.positive >= 0 && e.positive <= e.n && e.n < math.Inf(1)) {
		f.Fail("examples", fmt.Errorf("%g of %g", e.positive, e.n))
	}
}
