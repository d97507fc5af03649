package online

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// sweep does the work that the updates since the last sweep have deferred.
func (l *Learner) sweep() {
	k := float64(l.left)
	if l.opt.L1 > 0 || l.opt.L2 > 0 {
		l.shrink(k)
	}
	if l.nag && l.opt.Memory > 0 {
		keep := powerInt(1-1/l.opt.Memory, l.left)
		for j := 0; j < len(l.hist); j += 2 {
			l.hist[j] *= keep
		}
		l.histB *= keep
		l.t *= keep
		l.norm *= keep
	}
	if l.opt.Average != "none" {
		l.sweeps++
		share := 1 / l.sweeps
		if l.opt.Average == "linear" {
			share = 2 / (l.sweeps + 1)
		}
		for j, w := range l.w {
			l.avg[j] += float64(share * (w - l.avg[j]))
		}
		l.avgB += float64(share * (l.b - l.avgB))
	}
	l.left, l.touched = 0, 0
}

// shrink does the proximal step of the regularisation for k updates.
func (l *Learner) shrink(k float64) {
	d := l.rate()
	for j, w := range l.w {
		if w == 0 {
			continue
		}
		dj := d
		if l.nag {
			dj = d / (l.hist[2*j+1] * math.Sqrt(l.hist[2*j]))
		}
		dj *= k
		l.w[j] = 0 // also if dj is not finite
		if a := max(0, math.Abs(w)-float64(dj*l.opt.L1)) / (1 + float64(dj*l.opt.L2)); a > 0 {
			l.w[j] = math.Copysign(a, w)
		}
	}
}

// powerInt returns x^n by squaring.
func powerInt(x float64, n uint64) float64 {
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			y *= x
		}
		x *= x
	}
	return y
}

// power returns x^p for x ≥ 1, with the same bits on every machine.
func power(x, p float64) float64 {
	// x = m 2^e; log m by its atanh series, which converges fast on [1/√2, √2].
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1)
	s2, sum := s*s, 0.0
	for i := 23; i > 0; i -= 2 {
		sum = float64(sum*s2) + 1/float64(i)
	}
	log := 2*float64(s*sum) + float64(float64(e)*math.Ln2)
	if v := float64(p * log); v <= 0 {
		return linear.ExpNeg(-v)
	} else {
		return 1 / linear.ExpNeg(v)
	}
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Uint64("n", &l.n)
	f.Uint64("updates", &l.updates)
	f.Float64s("w", &l.w)
	f.Float64("b", &l.b)
	f.Float64s("history", &l.hist)
	f.Float64("history_b", &l.histB)
	f.Float64("t", &l.t)
	f.Float64("norm", &l.norm)
	f.Float64("label_mean", &l.meanY)
	f.Float64("label_deviation", &l.devY)
	f.Float64s("average", &l.avg)
	f.Float64("average_b", &l.avgB)
	f.Float64("sweeps", &l.sweeps)
	f.Uint64("touched", &l.touched)
	f.Uint64("left", &l.left)
	f.Float64("loss", &l.mean)
	if f.Decoding() && f.Err() == nil {
		f.Fail("w", l.restore())
	}
}

// restore completes decoding. It returns an error for states that no run can have saved.
func (l *Learner) restore() error {
	n, hist, avg := len(l.w), 0, 0
	if l.nag {
		hist = 2 * n
	}
	if l.opt.Average != "none" {
		avg = n
	}
	if len(l.hist) != hist || len(l.avg) != avg {
		return fmt.Errorf("%d weights with %d numbers of history and %d of the average", n, len(l.hist), len(l.avg))
	}
	if err := linear.Finite(l.w, l.hist, l.avg, []float64{l.b, l.histB, l.t, l.norm, l.meanY, l.devY, l.avgB, l.sweeps, l.mean}); err != nil {
		return err
	}
	l.renew()
	return nil
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
