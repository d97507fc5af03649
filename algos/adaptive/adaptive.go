package adaptive

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// The experts, in the order of their scores and weights.
const (
	growing = iota // M: all examples since the last cut
	k64            // challengers, on the newest examples
	k256
	k1024
	l1 // passive-aggressive
	l01
	a3 // AdaGrad
	a1
	r1 // passive-aggressive in random features
	r01
	numExperts
)

var names = [numExperts]string{"m", "k64", "k256", "k1024", "l1", "l01", "a3", "a1", "r1", "r01"}

// windows are those of the challengers.
var windows = []int{64, 256, 1024}

// Learner is the panel; see the package documentation. Not safe for concurrent
// use.
type Learner struct {
	*samplers.Buffer
	opt options
	env algos.Env

	cutting  *samplers.Cutting
	machines [1 + k1024]*machine // nil: none yet; a challenger is as good as the growing one until that has more examples
	inputs   inputs
	linear   [numExperts - l1]onePass
	waves    *waves // nil: none yet, or none at all
	vote     *vote
	trust    trust

	dim   int   // features of the widest example
	evals int64 // kernel values computed by learners that are gone; like those of scs, since it was made or restored
	tuned uint64
	told  uint64 // when the log was told of a cut

	waiting []foretold // in order of the examples

	block [1 + k1024][]float64 // scratch
	vecs  []stream.Vec
	said  [tick]*prediction
}

var (
	_ algos.Sequential = (*Learner)(nil)
	_ algos.Cutter     = (*Learner)(nil)
	_ algos.Foreteller = (*Learner)(nil)
)

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	if env.Task == algos.Regress {
		return newRegressor(env, o)
	}
	b, err := samplers.New(samplers.Options{Every: 1})
	if err != nil {
		return nil, err
	}
	l := &Learner{Buffer: b, opt: o, env: env, vote: newVote(numExperts)}
	if l.cutting, err = samplers.NewCutting(whole+tick, windows...); err != nil {
		return nil, err
	}
	for e := range l.linear {
		x := &l.linear[e]
		switch e + l1 {
		case l1, r1:
			x.rate = 1
		case l01, r01:
			x.rate = 0.1
		case a3:
			x.rate, x.adaptive = 0.3, true
		case a1:
			x.rate, x.adaptive = 0.1, true
		}
	}
	return l, nil
}

// predict returns what the experts say of example i of those whose scores by
// machines are known.
func (l *Learner) predict(i int, z, phi stream.Vec) (p prediction) {
	for e := range l.machines {
		p.scores[e] = l.block[e][i]
	}
	l.scoreLinear(p.scores[:], z, phi)
	p.f = logOdds(l.vote.mix(p.scores[:]))
	if m := l.machines[growing]; m != nil {
		if l.trust.given(m.rows) {
			p.f = l.vote.experts[growing].odds(p.scores[growing])
		}
		cuts, _ := l.cutting.Cuts()
		p.machine = 1 + cuts
	}
	return p
}

// scoreLinear sets the scores of linear experts.
func (l *Learner) scoreLinear(scores []float64, z, phi stream.Vec) {
	for e := range l.linear {
		switch {
		case e+l1 < r1:
			scores[l1+e] = l.linear[e].score(z)
		case l.waves != nil:
			scores[l1+e] = l.linear[e].score(phi)
		}
	}
}

// one predicts an example, whose scores by machines are known, unless it was
// foretold, and learns from it.
func (l *Learner) one(i int, x *stream.Example) (float64, error) {
	z, phi := l.see(x)
	var p prediction
	var now [numExperts]float64
	if l.said[i] != nil {
		p = *l.said[i]
		l.scoreLinear(now[:], z, phi)
	} else {
		p = l.predict(i, z, phi)
		now = p.scores
	}
	if p.machine > 0 {
		var wrong [1 + k1024]bool
		for e := range wrong {
			wrong[e] = (p.scores[e] >= 0) != (x.Y > 0)
		}
		// The panel as it is weighed today: it may have learned since whom to believe.
		l.trust.compare(wrong[growing], (l.vote.mix(p.scores[:]) >= 0) != (x.Y > 0))
		// The errors of a machine that has been cut since say nothing of this one.
		if cuts, _ := l.cutting.Cuts(); p.machine == 1+cuts {
			l.cutting.Compare(wrong[growing], wrong[k64:])
		}
	}
	l.vote.learn(p.scores[:], x.Y)
	if l.dim = max(l.dim, x.X.Dim()); l.dim > narrow && !l.inputs.wide {
		l.widen()
		z = l.inputs.apply(x.X)
		clear(now[l1:])
	}
	for e := range l.linear {
		switch {
		case e+l1 < r1:
			l.linear[e].learn(z, now[l1+e], x.Y)
		case l.waves != nil:
			l.linear[e].learn(phi, now[l1+e], x.Y)
		}
	}
	l.inputs.observe(x.X)
	if l.waves == nil && !l.inputs.wide && l.opt.Panel != "small" && l.cutting.Seen()+1 >= first && l.dim > 0 {
		l.waves = newWaves(l.dim, l.env.Seed)
	}
	l.cutting.Add(x)
	for _, m := range l.machines {
		if m == nil {
			continue
		}
		if err := m.add(x); err != nil {
			return 0, err
		}
	}
	return p.f, nil
}

// Model returns a view of the present panel.
func (l *Learner) Model() algos.Model {
	return l.mixture()
}
