package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// ownPrior is the weight of the identity, in examples, for the log odds of the whole ensemble.
const ownPrior = 20

// shrinker learns a map m + a (f − m) + c of log odds f, which become overconfident with age.
// It takes Newton steps on the log loss, with forgetting. m are the log odds of the class
// rates: with a = 0, nothing of an outdated prediction is left but these.
type shrinker struct {
	slope, offset float64 // a, c
	haa, hac, hcc float64 // Hessian, discounted
	prior         float64 // weight of the identity, in examples
}

func newShrinker(prior float64) shrinker {
	return shrinker{slope: 1, haa: prior, hcc: prior, prior: prior}
}

func (s *shrinker) of(f, rate float64) float64 {
	return float64(s.slope*f) + float64((1-s.slope)*rate) + s.offset
}

// learn takes a step. With more than two classes it learns the slope only.
func (s *shrinker) learn(f, rates []float64, y int, weight float64) {
	rate := float64(ageForget * weight)
	keep := 1 - rate
	s.haa = float64(keep*s.haa) + float64(rate*s.prior)
	if len(f) > 1 {
		p := make([]float64, len(f))
		for k, v := range f {
			p[k] = s.of(v, rates[k])
		}
		chances(p, p)
		var mean, square float64
		for k := range f {
			v := f[k] - rates[k]
			mean += float64(p[k] * v)
			square += float64(float64(p[k]*v) * v)
		}
		s.haa += float64(weight * max(0, square-float64(mean*mean)))
		s.slope = min(max(s.slope-float64(weight*(mean-(f[y]-rates[y])))/s.haa, 0.05), mostSlope)
		return
	}
	v := f[0] - rates[0]
	p := linear.Sigmoid(s.of(f[0], rates[0]))
	g, h := weight*(p-float64(y)), weight*max(float64(p*(1-p)), 2*leastSpread)
	s.haa += float64(float64(h*v) * v)
	s.hac = float64(keep*s.hac) + float64(h*v)
	s.hcc = float64(keep*s.hcc) + float64(rate*s.prior) + h
	det := float64(s.haa*s.hcc) - float64(s.hac*s.hac)
	gf := float64(g * v)
	s.slope = min(max(s.slope-(float64(s.hcc*gf)-float64(s.hac*g))/det, 0.05), mostSlope)
	s.offset = bounded(s.offset-(float64(s.haa*g)-float64(s.hac*gf))/det, mostOdds)
}

func (s *shrinker) fields(f *state.Fields) {
	f.Float64("slope", &s.slope)
	f.Float64("offset", &s.offset)
	f.Float64("haa", &s.haa)
	f.Float64("hac", &s.hac)
	f.Float64("hcc", &s.hcc)
	if f.Decoding() && f.Err() == nil && !(s.slope >= 0.05 && s.slope <= mostSlope && math.Abs(s.offset) <= mostOdds && s.haa > 0 && s.hcc > 0 && s.haa*s.hcc-s.hac*s.hac > 0 && s.haa+s.hcc < math.Inf(1)) {
		f.Fail("slope", fmt.Errorf("%+v", *s))
	}
}
