package adaptive

import (
	"context"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// regressor learns numbers: the experts of a Learner without a mixer, and a blend of
// their predictions. Its kernel machines are kernel ridge regressions whatever the loss,
// which is that of the other experts and of the blend; the growing one slides once it
// holds as many examples as it may. Not safe for concurrent use.
type regressor struct {
	*Learner
	blend *blend
}

var (
	_ algos.Sequential       = (*regressor)(nil)
	_ algos.DriftReporter    = (*regressor)(nil)
	_ algos.PendingPredictor = (*regressor)(nil)
	_ algos.Publisher        = (*regressor)(nil)
)

func newRegressor(env algos.Env, o options, s *sizes) (algos.Learner, error) {
	l, err := newExpertsOf(env, o, s)
	if err != nil {
		return nil, err
	}
	return &regressor{l, newBlend(env.PublishEvery, l.experts, o.Loss == "absolute")}, nil
}

// numberExperts returns the experts of a regression, in the order of predictions and
// weights.
func (l *Learner) numberExperts() []entry {
	list := make([]entry, 0, 24)
	for _, i := range [...]int{growing, k64, k256, k1024} {
		list = append(list, entry{names[i], &kernelExpert{panel: l.panel, at: i}, false})
	}
	for i := l1; i <= r01; i++ {
		list = append(list, entry{names[i], &linearExpert{p: l.panel, at: i - l1, form: formOf(i)}, false})
	}
	for _, rate := range [...]string{"0.1", "0.5", "2"} {
		list = append(list, entry{"o" + rate, &fitted{panel: l, form: onRow, rate: rate}, false})
	}
	near := &neighbours{number: true}
	return append(list,
		entry{"ridge", &fitted{panel: l, form: onZ}, false},
		entry{"features", &fitted{panel: l, form: onPhi}, false},
		entry{"n512", &nearExpert{neighbours: near}, false},
		entry{"n2048", &nearExpert{neighbours: near, second: true}, false},
		entry{"last", &lastNumber{labels: &l.labels}, false},
		entry{"mean", &meanNumber{labels: &l.labels}, false},
	)
}

// compareNumbers tells the drift detector which machines were nearer to y.
func (l *Learner) compareNumbers(p *prediction, y, weight float64) {
	var by [k2048]float64
	for e, x := range l.experts {
		if k, ok := x.expert.(*kernelExpert); ok && k.at > growing && l.machines[k.at] != nil && p.scores[e].ok {
			by[k.at-k64] = weight * better(p.scores[e].f-y, p.scores[0].f-y)
		}
	}
	l.cutting.Compare(by[:])
}

// better is 1 where the first error is the smaller one, −1 where it is the larger one.
func better(a, b float64) float64 {
	switch a, b := math.Abs(a), math.Abs(b); {
	case a < b:
		return 1
	case a > b:
		return -1
	}
	return 0
}

// Follow implements algos.Sequential.
func (r *regressor) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := r.learn(ctx, r.Take().Join); err != nil {
		return 0, 0, err
	}
	learned, err = r.follow(ctx, dst, xs)
	return learned, learned, err
}

func (r *regressor) learn(ctx context.Context, xs []*stream.Example) error {
	_, err := r.follow(ctx, make([]float64, len(xs)), xs)
	return err
}

// follow is not interrupted: there would be no state to go back to.
func (r *regressor) follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned int, err error) {
	ctx = context.WithoutCancel(ctx)
	for p := r.blend.published; len(xs) > 0; {
		n := r.until(p.next, xs)
		if _, _, err := r.Learner.Follow(ctx, dst[:n], xs[:n]); err != nil {
			return learned, err
		}
		i := 0
		for at, x := range xs[:n] {
			if x.Labelled {
				dst[at] = r.blend.learn(r.log[i].scores, r.log[i].aged, x.Y, r.log[i].weight)
				i++
			}
		}
		r.log = r.log[:0]
		dst, xs, learned = dst[n:], xs[n:], learned+i
		if seen := r.cutting.Seen(); seen >= p.next {
			if err := r.keepVersion(); err != nil {
				return learned, err
			}
			p.take(seen, r.blend.weights(), r.blend.share.weights())
		}
	}
	return learned, nil
}

// until returns how many of the examples are learned from together: not beyond the next
// version.
func (r *regressor) until(next uint64, xs []*stream.Example) (n int) {
	for seen := r.cutting.Seen(); n < min(len(xs), together) && seen < next; n++ {
		if xs[n].Labelled {
			seen++
		}
	}
	return n
}

// Step learns from the examples pending.
func (r *regressor) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	err := r.learn(ctx, r.Take().Join)
	return r.Report(), err
}

// Finish learns from the examples pending, and makes a machine of a short stream.
func (r *regressor) Finish(ctx context.Context) (algos.Report, error) {
	if err := r.learn(ctx, r.Take().Join); err != nil {
		return algos.Report{}, err
	}
	_, err := r.Learner.Finish(ctx)
	return r.Report(), err
}

// PredictPending implements algos.PendingPredictor.
func (r *regressor) PredictPending(x *stream.Example) float64 {
	r.Learner.PredictPending(x)
	p := &r.pending[len(r.pending)-1]
	p.f = r.blend.predict(p.scores)
	return p.f
}

// Model returns a view of the present model.
func (r *regressor) Model() algos.Model { return r.weighted(r.blend.weights()) }

// Published implements algos.Publisher.
func (r *regressor) Published() algos.Model {
	return r.weighted(r.blend.published.weights(r.blend.weights(), r.blend.share.weights())).pruned()
}

// Calibrated implements algos.Publisher.
func (*regressor) Calibrated() (shift float64, ok bool) { return 0, false }

// weighted returns the experts with such weights.
func (r *regressor) weighted(w []float64) *ensemble {
	m, place := r.ensemble()
	m.limits = r.blend.limits()
	w = shared(w, func(e int) bool { return place[e] >= 0 })
	for e, k := range place {
		if k >= 0 {
			m.terms = append(m.terms, term{member: k, weight: w[e]})
		}
	}
	return m
}

// Report describes the present state.
func (r *regressor) Report() algos.Report {
	list := make([]string, len(r.experts))
	for e, x := range r.experts {
		list[e] = x.name
	}
	return r.report(list, r.blend.weights())
}

func (r *regressor) fields(f *state.Fields) {
	r.Learner.fields(f)
	f.Group("blend", r.blend.fields)
}

// AppendBinary appends the complete state.
func (r *regressor) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, r.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (r *regressor) UnmarshalBinary(data []byte) error { return state.Decode(data, r.fields) }

// limits bound predictions: the range of the numbers seen and a part of it on either side.
type limits struct{ low, high float64 }

const beyond = 0.1 // of the range, on either side

// ensembleLimits is the first field of the model of a regression.
const ensembleLimits = "low"

func (m *ensemble) limitFields(f *state.Fields) {
	if f.Decoding() {
		if m.limits = nil; !f.Next(ensembleLimits) {
			return
		}
		m.limits = new(limits)
	}
	if b := m.limits; b != nil {
		f.Float64(ensembleLimits, &b.low)
		f.Float64("high", &b.high)
		if f.Decoding() && f.Err() == nil && !(b.low <= b.high && b.high-b.low < math.Inf(1)) {
			f.Fail(ensembleLimits, fmt.Errorf("%g to %g", b.low, b.high))
		}
	}
}

func (b *limits) clip(v float64) float64 { return min(max(v, b.low), b.high) }

// numbers sets dst to the weighted sums of the members' predictions, which are given by
// member.
func (m *ensemble) numbers(dst []float64, predictions [][]float64) {
	for i := range dst {
		f := m.bias
		for _, t := range m.terms {
			f += float64(t.weight * m.limits.clip(predictions[t.member][i]))
		}
		dst[i] = m.limits.clip(f)
	}
}

// keepSum adds to the heaviest weight what their sum lacks of 1.
func (m *ensemble) keepSum() {
	if len(m.terms) == 0 {
		return
	}
	at, sum := 0, 1.0
	for i, t := range m.terms {
		sum -= t.weight
		if math.Abs(t.weight) > math.Abs(m.terms[at].weight) {
			at = i
		}
	}
	m.terms[at].weight += sum
}
