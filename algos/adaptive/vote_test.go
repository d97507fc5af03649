package adaptive

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// slowVote is the vote, written down formula by formula with logarithms of the
// weights and no state but the past: the scores and labels that have come.
type slowVote struct {
	logW   [][]float64 // by rate and expert
	logV   []float64
	prior  []float64
	square []float64 // mean square of scores
	slope  []float64
	t      float64
}

func newSlowVote(prior []float64) *slowVote {
	n := len(prior)
	s := &slowVote{prior: prior, square: make([]float64, n), slope: make([]float64, n), logV: make([]float64, len(alphas))}
	for e := range s.slope {
		s.slope[e] = 1
	}
	for i := range alphas {
		s.logW = append(s.logW, make([]float64, n))
		for e := range n {
			s.logW[i][e] = math.Log(prior[e])
		}
		s.logV[i] = -math.Log(float64(len(alphas)))
	}
	return s
}

func (s *slowVote) u(e int, score float64) float64 {
	u := score / math.Sqrt(s.square[e])
	switch {
	case score == 0:
		return 0
	case u > 3:
		return 3
	case u < -3:
		return -3
	}
	return u
}

// p returns the experts' probabilities, 0.02 to 0.98, and their mean.
func (s *slowVote) p(scores []float64) (p []float64, mean float64) {
	for e, f := range scores {
		u := s.u(e, f)
		if s.square[e] == 0 && f != 0 {
			u = f / math.Abs(f)
		}
		p = append(p, math.Min(math.Max(1/(1+math.Exp(-s.slope[e]*u)), 0.02), 0.98))
		for i := range alphas {
			mean += math.Exp(s.logV[i]+s.logW[i][e]) * p[e]
		}
	}
	return p, mean
}

func uniform(n int) []float64 {
	p := make([]float64, n)
	for e := range p {
		p[e] = 1 / float64(n)
	}
	return p
}

func logSum(v []float64) float64 {
	top := math.Inf(-1)
	for _, x := range v {
		top = math.Max(top, x)
	}
	sum := 0.0
	for _, x := range v {
		sum += math.Exp(x - top)
	}
	return top + math.Log(sum)
}

// share returns the logarithm of (1−rate)·e^v + rate·prior, of each of v, which
// are to sum to 1 first.
func share(v []float64, rate float64, prior []float64) []float64 {
	all := logSum(v)
	out := make([]float64, len(v))
	for k, x := range v {
		out[k] = logSum([]float64{math.Log(1-rate) + x - all, math.Log(rate * prior[k])})
	}
	return out
}

func (s *slowVote) learn(scores []float64, y float64) {
	p, _ := s.p(scores)
	for i, rate := range alphas {
		for e := range p {
			s.logW[i][e] += math.Log(map[bool]float64{true: p[e], false: 1 - p[e]}[y > 0])
		}
		s.logV[i] += logSum(s.logW[i])
		s.logW[i] = share(s.logW[i], rate, s.prior)
	}
	s.logV = share(s.logV, metaRate, uniform(len(alphas)))
	for e, f := range scores {
		u := s.u(e, f)
		if s.square[e] == 0 && f != 0 {
			u = f / math.Abs(f)
		}
		target := (y + 1) / 2
		gradient := (1/(1+math.Exp(-s.slope[e]*u)) - target) * u
		s.slope[e] = math.Max(0.05, s.slope[e]-math.Max(0.02, 0.5/math.Sqrt(s.t+10))*gradient)
		s.square[e] += math.Max(0.002, 1/(s.t+1)) * (f*f - s.square[e])
	}
	s.t++
}

// voteStream draws scores of n experts, of very different sizes, and a label.
// Expert e is right with a probability of its own, which changes now and then; one
// is always undecided, one always wrong.
type voteStream struct {
	r     *rand.Rand
	right []float64
	t     int
}

func (s *voteStream) next(scores []float64) (y float64) {
	if s.t%400 == 0 {
		for e := range scores {
			s.right[e] = 0.3 + 0.7*s.r.Float64()
		}
	}
	s.t++
	y = float64(2*s.r.IntN(2) - 1)
	for e := range scores {
		f := math.Abs(s.r.NormFloat64()) * math.Pow(10, float64(3*e-12))
		if s.r.Float64() < s.right[e] {
			f *= y
		} else {
			f *= -y
		}
		scores[e] = f
	}
	scores[1] = 0
	scores[2] = -math.Abs(scores[2]) * y
	if s.t%50 < 3 { // far out
		scores[3] *= 1e6
	}
	return y
}

func TestVoteAgainstFormulas(t *testing.T) {
	for seed := range uint64(3) {
		s := &voteStream{r: rand.New(rand.NewPCG(seed, 1)), right: make([]float64, numExperts)}
		v, slow := newVote(priors(numExperts)), newSlowVote(priors(numExperts))
		scores := make([]float64, numExperts)
		for i := range 2000 {
			y := s.next(scores)
			got := v.mix(scores)
			_, want := slow.p(scores)
			if math.Abs(got+0.5-want) > 1e-9 {
				t.Fatalf("seed %d, example %d: p = %g, want %g", seed, i, got+0.5, want)
			}
			v.learn(scores, y, 1)
			slow.learn(scores, y)
			sum := 0.0
			for e, w := range v.weights() {
				want := 0.0
				for k := range alphas {
					want += math.Exp(slow.logV[k] + slow.logW[k][e])
				}
				if math.Abs(w-want) > 1e-9 {
					t.Fatalf("seed %d, example %d: weight of %s %g, want %g", seed, i, names[e], w, want)
				}
				sum += w
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Fatalf("seed %d, example %d: the weights sum to %g", seed, i, sum)
			}
		}
	}
}

// TestVoteSides: an expert alone decides as its score does, however poor its
// record, and one whose score is 0 does not decide.
func TestVoteSides(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	v := newVote(uniform(1))
	for i := range 2000 {
		f := r.NormFloat64() * math.Pow(10, float64(r.IntN(9)-4))
		if p := v.mix([]float64{f}); (p > 0) != (f > 0) || math.Abs(p) > 0.48+1e-15 {
			t.Fatalf("after %d examples: score %g, p−½ = %g", i, f, p)
		}
		if p := v.mix([]float64{0}); p != 0 {
			t.Fatalf("after %d examples: score 0, p−½ = %g", i, p)
		}
		v.learn([]float64{f}, float64(2*r.IntN(2)-1), 1)
	}
}

// TestVoteRegret: the logarithmic loss of fixed share at rate α is at most that of
// any sequence of n experts with k changes, plus
//
//	ln n + k ln(n/α) + (T−1−k) ln(1/(1−α+α/n)),
//
// and that of the mixture of r rates that of any of them, plus
// ln r + (T−1) ln(1/(1−μ+μ/r)) with μ the rate at which those are shared.
func TestVoteRegret(t *testing.T) {
	const T, n, changes = 4000, numExperts, 12
	for seed := range uint64(4) {
		s := &voteStream{r: rand.New(rand.NewPCG(seed, 2)), right: make([]float64, n)}
		if seed == 0 {
			s.t = 1 // with no change: the best expert stays the best
			for e := range s.right {
				s.right[e] = 0.5 + 0.04*float64(e)
			}
		}
		v := newVote(uniform(n))
		scores := make([]float64, n)
		loss := 0.0
		best := make([][]float64, changes+1) // least loss with k changes, by the expert at the end
		for k := range best {
			best[k] = make([]float64, n)
		}
		for i := range T {
			if seed == 0 {
				s.t = 1
			}
			y := s.next(scores)
			loss -= math.Log(0.5 + y*v.mix(scores))
			for k := changes; k >= 0; k-- {
				least := math.Inf(1)
				if k > 0 {
					for _, l := range best[k-1] {
						least = math.Min(least, l)
					}
				}
				for e := range best[k] {
					p := v.experts[e].p(scores[e])
					if i > 0 {
						best[k][e] = math.Min(best[k][e], least)
					}
					best[k][e] -= math.Log(0.5 + y*(p-0.5))
				}
			}
			v.learn(scores, y, 1)
		}
		for k := range best {
			sequence := math.Inf(1)
			for _, l := range best[k] {
				sequence = math.Min(sequence, l)
			}
			bound := math.Inf(1)
			for _, alpha := range alphas {
				bound = math.Min(bound, math.Log(n)+float64(k)*math.Log(n/alpha)-float64(T-1-k)*math.Log(1-alpha+alpha/n))
			}
			rates := float64(len(alphas))
			bound += math.Log(rates) - (T-1)*math.Log(1-metaRate+metaRate/rates)
			t.Logf("seed %d, %d changes: loss %.1f, of the best sequence %.1f, bound %.1f", seed, k, loss, sequence, sequence+bound)
			if loss > sequence+bound {
				t.Errorf("seed %d: loss %g, of the best sequence with %d changes %g: more than %g above", seed, loss, k, sequence, bound)
			}
		}
	}
}

// TestVoteRefuses: states that no vote has had are refused.
func TestVoteRefuses(t *testing.T) {
	encode := func(v *vote) []byte {
		data, err := state.Append(nil, v.fields)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := state.Decode(encode(newVote(uniform(3))), newVote(uniform(3)).fields); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*vote){
		"a flat opinion":       func(v *vote) { v.experts[1].slope = 0 },
		"a slope of NaN":       func(v *vote) { v.experts[1].slope = math.NaN() },
		"endless scores":       func(v *vote) { v.experts[2].square = math.Inf(1) },
		"a negative square":    func(v *vote) { v.experts[2].square = -1 },
		"a weight of 0":        func(v *vote) { v.w[3][1] = 0 },
		"a weight above 1":     func(v *vote) { v.w[3][1] = 1.5 },
		"a rate's weight of 0": func(v *vote) { v.v[0] = 0 },
		"a weight of NaN":      func(v *vote) { v.w[0][0] = math.NaN() },
		"a weight too few":     func(v *vote) { v.w[2] = v.w[2][:2] },
	} {
		v := newVote(uniform(3))
		change(v)
		if err := state.Decode(encode(v), newVote(uniform(3)).fields); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestTrust compares with sums over the whole past, and checks when the machine
// is trusted.
func TestTrust(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	var tr trust
	var past []float64
	yes, no := 0, 0
	for i := range 3000 {
		rate := map[bool]float64{true: 0.1, false: 0.3}[i/500%2 == 0]
		machine, panel := r.Float64() < rate, r.Float64() < 0.15
		tr.compare(machine, panel, 1)
		d := 0.0
		if machine != panel {
			d = map[bool]float64{true: 1, false: -1}[machine]
		}
		past = append(past, d)
		if i%4 > 0 {
			continue
		}
		var short, long, square float64
		for k, d := range past {
			age := float64(len(past) - 1 - k)
			short += d * math.Exp2(-age/shortMemory)
			long += d * math.Exp2(-age/longMemory)
			square += d * d * math.Exp2(-2*age/longMemory)
		}
		for _, c := range [][2]float64{{tr.short, short}, {tr.long, long}, {tr.square, square}} {
			if math.Abs(c[0]-c[1]) > 1e-9 {
				t.Fatalf("example %d: %+v, want %g, %g, %g", i, tr, short, long, square)
			}
		}
		if tr.given(false, false) {
			t.Fatalf("example %d: a machine of 1,023 examples is trusted", i)
		}
		want := short < 2 && long <= math.Sqrt(square)
		if tr.given(true, false) != want {
			t.Fatalf("example %d: %+v: trusted %v", i, tr, !want)
		}
		if want {
			yes++
		} else {
			no++
		}
	}
	if yes < 50 || no < 50 {
		t.Errorf("trusted %d times, not %d times", yes, no)
	}
}

// A feature that comes for the first time with an example that is right by far has
// a gradient whose square is 0: its weight stays 0.
func TestLogisticStepWithoutGradient(t *testing.T) {
	e := &onePass{rate: 1, adaptive: true, logistic: true}
	e.learn(stream.Vec{Val: []float32{1}}, 0, 1, 1)
	for _, s := range []float64{300, 500, 2000} {
		e.learn(stream.Vec{Val: []float32{1, 1}}, s, 1, 1)
		if err := linear.Finite(e.w, e.g, []float64{e.b, e.gb}); err != nil {
			t.Fatalf("after a score of %g: %v", s, err)
		}
	}
}

// With weights a machine that is no worse is not trusted, one that is better is.
func TestTrustWithWeights(t *testing.T) {
	var tr trust
	tr.note(0.1)
	tr.note(-0.1)
	if !tr.given(true, false) || tr.given(true, true) {
		t.Error("a machine that is no better")
	}
	for range 30 {
		tr.note(-0.1)
	}
	if !tr.given(true, true) || tr.given(false, true) {
		t.Error("a machine that is better")
	}
}
