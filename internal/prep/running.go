package prep

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// DefaultSpan is the default of Options.Span.
const DefaultSpan = 1000

// running is the state of the scale Running apart from shift (the running means) and
// factor.
type running struct {
	span    float64
	n       uint64    // examples
	squares []float64 // by feature: sum of squared distances from the mean at the time
}

// Next returns the preprocessed x, like Apply, and then updates the statistics with x.
// The update matters only with Running, where feature j becomes
//
//	(x_j − m_j)/s_j,   m_j ← m_j + max(1/n, 2/(Span+1))·(x_j − m_j)
//
// for the n-th example, where s_j is the root mean square of all differences x_j − m_j
// so far. It describes an example by its deviations from the recent past, so levels that
// drift, such as dates and prices, stay comparable. Labels are not used. Apply uses the
// present means; a published model has the means as of its last example.
//
// Running makes sparse examples dense, up to DenseLimit features; values of
// features beyond that are limited to [-1,1].
//
// Next counts clipped values, see Clipped. It must not be called concurrently with
// other methods.
func (t *Transform) Next(x stream.Vec) stream.Vec {
	if t.hashDim == 0 && (t.scale == "" || t.scale == None) {
		return x
	}
	x = t.hash(x, &t.arena)
	values := t.clipped.Values
	y := t.scaled(x, &t.clipped)
	if t.clipped.Values > values {
		t.clipped.Examples++
	}
	if t.scale == Running {
		t.observe(x)
	}
	return y
}

func (t *Transform) observe(x stream.Vec) {
	r := &t.running
	for d := min(x.Dim(), DenseLimit); len(r.squares) < d; {
		// The feature was 0 in all examples so far.
		r.squares = append(r.squares, 0)
		t.shift = append(t.shift, 0)
		t.factor = append(t.factor, 0)
	}
	r.n++
	rate := max(1/float64(r.n), 2/(r.span+1))
	k := 0
	for j, m := range t.shift {
		v := 0.0
		if k < len(x.Val) && index(x, k) == j {
			v = float64(x.Val[k])
			k++
		}
		d := v - m
		t.shift[j] = m + float64(rate*d)
		if r.n == 1 {
			continue // there is nothing to compare with yet
		}
		if r.squares[j] += float64(d * d); r.squares[j] > 0 {
			t.factor[j] = 1 / math.Sqrt(r.squares[j]/float64(r.n-1))
		}
	}
}

func (r *running) fields(f *state.Fields) {
	f.Float64("span", &r.span)
	f.Uint64("count", &r.n)
	f.Float64s("squares", &r.squares)
}

func (t *Transform) checkRunning() error {
	if t.scale != Running {
		return nil
	}
	r := &t.running
	if !(r.span >= 1 && r.span < math.Inf(1)) || !t.dense || len(r.squares) != len(t.shift) || len(r.squares) > DenseLimit {
		return fmt.Errorf("running means of %d features over %g examples, %d sums", len(t.shift), r.span, len(r.squares))
	}
	for _, v := range r.squares {
		if !(v >= 0 && v < math.Inf(1)) {
			return fmt.Errorf("%v among sums of squares", v)
		}
	}
	return nil
}
