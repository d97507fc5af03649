// Package gate is the champion/challenger gate of a trainer. It takes snapshots of the
// model, tests them on later examples, and decides to which one the alias of the champion
// should point. Import it for its side effect: trainer.Options.Gate then has a rule.
//
// Rule, ChampionTest, RollbackTest and ConfidenceSequence can also be used without a
// trainer. Their Fields methods describe the state for package checkpoint/state.
//
// The API may change.
package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// gate holds a champion and a challenger, both snapshots of the model, and makes them
// predict every labelled example that comes after they were taken. The learner itself is
// not compared: its earlier predictions are no evidence about its present model, which may
// have learned from wrong labels since. Both are compared in their published form, on
// examples that arrived after the challenger was taken, whether or not their labels are
// late. The champion is the older of the two, which is the choice that a
// subscriber has at that time.
//
// All decisions are functions of the stream, as learning is, and have no influence on
// it. A challenger is taken only when the number of labelled examples passes a multiple
// of grid and all work that is due by then has been done. So it does not depend on
// timing or on how the stream is cut into batches.
type gate struct {
	rule    Rule
	grid    uint64
	at      uint64 // labelled examples/grid when a challenger was last due
	regress bool
	classes bool // more than two

	champion, challenger, before *snapshot // nil if there is none
	trial                        ChampionTest
	measures                     *eval.Prequential // of the challenger, over its trial
	rollback                     RollbackTest
	served                       *eval.Prequential // of the champions, each while it was one
	constant                     constant
	scale                        float64           // the size of a loss of 1 in a regression; 0 until a challenger is taken
	inputs, inputsBefore         *events.Histogram // during the trial, and before it; nil without a schema
	promotions, rejections       uint64
	demotions                    uint64
	labels                       uint64 // labelled examples scored
	last                         string // why the champion is the champion

	// The rest is not part of the state.
	pending  []stream.Example // labelled, and not scored yet; empty whenever the state is encoded
	why      string           // why the challenger is not promoted yet
	settled  uint64           // changes of the champion that have been published
	previous uint64           // the version that the alias pointed to then
	decided  func(promote.Decision)
	answered func(decision float64)
}

// snapshot is a copy of the model, taken after the given number of labelled examples.
type snapshot struct {
	examples uint64
	arrived  uint64 // examples that had arrived by then, if labels come late; else 0
	pipe     *pipeline.Pipeline
	payload  []byte        // of pipe
	update   stream.Update // Examples, Step, Offsets and Evaluation at that time
	// version is the published version; 0 if it was not published, or if the version is
	// unknown. Not part of the state.
	version uint64
	created time.Time
}

func (s *snapshot) id() uint64 {
	if s == nil {
		return 0
	}
	return s.examples
}

func init() {
	promote.New = func(text string, regress, classes bool, schema string) (promote.Gate, error) {
		g, err := newGate(text, regress, classes, schema)
		if err != nil {
			return nil, err // a nil *gate would not be a nil interface
		}
		return g, nil
	}
	promote.Check = func(text string, regress bool) error {
		_, err := ParseRule(text, regress, false)
		return err
	}
}

// newGate returns a gate with the rule that ParseRule reads from text. classes says
// that there are more than two classes. schema is the schema of events, "" for vectors.
func newGate(text string, regress, classes bool, schema string) (*gate, error) {
	rule, err := ParseRule(text, regress, classes)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	g := &gate{rule: rule, grid: max(100, uint64(rule.Examples)/5), regress: regress, classes: classes}
	g.constant = constant{regress: regress, classes: classes, error: rule.Measure == Error}
	g.served, g.measures = g.noMeasures(), g.noMeasures()
	if schema != "" {
		s, err := events.Parse(schema)
		if err != nil {
			return nil, err
		}
		g.inputs, g.inputsBefore = events.NewHistogram(s), events.NewHistogram(s)
	}
	return g, nil
}

// noMeasures returns measures without a window.
func (g *gate) noMeasures() *eval.Prequential {
	if g.classes {
		return eval.NewClasses(1)
	}
	return eval.New(g.regress, 1)
}

// Notify sets functions to call with each decision, and with the champion's decision on each
// labelled example, NaN while there is no champion. Either may be nil.
func (g *gate) Notify(decided func(promote.Decision), answered func(decision float64)) {
	g.decided, g.answered = decided, answered
}

// Report implements promote.Gate.
func (g *gate) Report() *promote.Report {
	nan := eval.Number(math.NaN())
	r := &promote.Report{
		Rule: g.rule.String(), Champion: g.champion.id(), Challenger: g.challenger.id(), Gain: nan, Low: nan, High: nan,
		Promotions: g.promotions, Rejections: g.rejections, Demotions: g.demotions,
		Served: g.served.Summary().Measures, ServedExamples: g.served.Examples(),
	}
	if g.challenger == nil {
		r.Waits = "there is no challenger"
		return r
	}
	r.Waits, r.Examples = g.why, g.trial.N()
	if g.champion != nil {
		r.Gain, r.Low, r.High = g.numbers(g.trial.Gain())
	}
	return r
}

// unit is the size of a loss of 1 in the unit of the rule.
func (g *gate) unit() float64 {
	if g.regress && g.scale > 0 {
		return g.scale
	}
	return 1
}

// numbers converts losses to the unit of the rule.
func (g *gate) numbers(a, b, c float64) (x, y, z eval.Number) {
	u := g.unit()
	return eval.Number(a * u), eval.Number(b * u), eval.Number(c * u)
}

// Due implements promote.Gate.
func (g *gate) Due(labelled uint64) bool { return labelled/g.grid != g.at }

// Take implements promote.Gate.
func (g *gate) Take(labelled, arrived uint64, p *pipeline.Pipeline, about func() stream.Update) (bool, error) {
	g.at = labelled / g.grid
	if g.challenger != nil || p == nil || g.regress && g.constant.n < 2 ||
		g.rule.Measure == BrierScore && p.Probability == nil && p.Softmax == nil {
		return false, nil
	}
	payload, err := p.AppendBinary(nil)
	if err != nil {
		return false, fmt.Errorf("encoding the challenger: %w", err)
	}
	s := &snapshot{examples: labelled, arrived: arrived, payload: payload, update: about()}
	if s.pipe, err = pipeline.Decode(payload); err != nil {
		return false, fmt.Errorf("the challenger: %w", err)
	}
	if g.regress && g.scale == 0 {
		if g.scale = 4 * math.Sqrt(g.constant.dev/g.constant.n); !(g.scale > 0) {
			g.scale = 1
		}
	}
	g.challenger, g.trial, g.measures, g.why = s, ChampionTest{}, g.noMeasures(), TooFew
	if g.inputs != nil {
		if g.inputs.N() >= leastInputs {
			g.inputsBefore.Clear()
		}
		g.inputsBefore.Join(g.inputs)
		g.inputs.Clear()
	}
	return true, nil
}

// leastInputs is the minimum number of vectors in a reference histogram.
const leastInputs = 500

// Warm implements promote.Gate.
func (g *gate) Warm(warm []*stream.Example) {
	for _, x := range warm {
		if x.Labelled {
			g.labels++
			g.constant.add(x.Y, g.scale)
		}
	}
}

// Add implements promote.Gate.
func (g *gate) Add(x *stream.Example) {
	if x.Labelled {
		g.pending = append(g.pending, stream.Example{X: x.X, Y: x.Y, Seq: x.Seq})
	}
}

// Score implements promote.Gate. It decides after each example. A decision changes
// the models, and the examples behind it are then scored by the new ones.
func (g *gate) Score() {
	for len(g.pending) > 0 {
		xs := make([]stream.Vec, len(g.pending))
		for i := range xs {
			xs[i] = g.pending[i].X
		}
		champion, challenger := g.champion.predict(xs), g.challenger.predict(xs)
		var before *promote.Predictions
		if g.rule.Demote > 0 {
			before = g.before.predict(xs)
		}
		done := 0
		for changed := false; done < len(xs) && !changed; done++ {
			changed = g.score(&g.pending[done], done, champion, challenger, before)
		}
		g.pending = slices.Delete(g.pending, 0, done)
	}
}

// score scores example i, and reports whether one of the models has changed.
func (g *gate) score(x *stream.Example, i int, champion, challenger, before *promote.Predictions) bool {
	g.labels++
	l := Losses{
		Baseline: g.constant.add(x.Y, g.scale), Challenger: g.loss(challenger, i, x.Y), Champion: g.loss(champion, i, x.Y),
	}
	if g.inputs != nil {
		g.inputs.Add(x.X)
	}
	answer := math.NaN()
	if champion != nil {
		answer = champion.Measure(g.served, i, x.Y)
	}
	if g.answered != nil {
		g.answered(answer)
	}
	if champion != nil && before != nil {
		g.rollback.Add(l.Champion, g.loss(before, i, x.Y))
		if g.rollback.Demote(&g.rule, g.unit()) {
			g.demote()
			return true
		}
	}
	if challenger == nil || x.Seq <= g.challenger.arrived {
		return false
	}
	challenger.Measure(g.measures, i, x.Y)
	g.trial.Add(&g.rule, l, g.unit())
	verdict, why := g.trial.Verdict(&g.rule, champion != nil, g.unit(), g.named, g.drift)
	if g.why = why; verdict == Wait {
		return false
	}
	d := promote.Decision{At: g.labels, Model: g.challenger.examples, Verdict: string(verdict), Why: why, Examples: g.trial.N()}
	d.Gain, d.Low, d.High = g.numbers(g.trial.Gain())
	if champion == nil {
		nan := eval.Number(math.NaN())
		d.Gain, d.Low, d.High = nan, nan, nan
	}
	loss, baseline := g.trial.Loss()
	d.Loss, d.Baseline, _ = g.numbers(loss, baseline, 0)
	if verdict == Promote {
		g.promotions++
		g.last = d.String()
		g.before, g.champion, g.rollback = g.champion, g.challenger, RollbackTest{}
	} else {
		g.rejections++
	}
	g.challenger = nil
	g.tell(d)
	return true
}

// named returns the challenger's measures by name.
func (g *gate) named() map[string]float64 {
	m := g.measures.Summary().Measures
	all := map[string]float64{Error: float64(m.Error)}
	for _, v := range m.List(g.classes) {
		all[v.Name] = v.Value
	}
	return all
}

// drift describes how the inputs have changed since the challenger was taken.
func (g *gate) drift() string {
	if g.inputs == nil {
		return ""
	}
	return g.inputs.Drift(g.inputsBefore)
}

// demote brings back the previous champion. It drops the challenger, which was compared
// with the demoted champion.
func (g *gate) demote() {
	nan := eval.Number(math.NaN())
	d := promote.Decision{
		At: g.labels, Model: g.before.examples, Verdict: "demoted", Examples: g.rollback.N(),
		Why:  fmt.Sprintf("the model of %d examples, promoted after it, is worse", g.champion.examples),
		Loss: nan, Baseline: nan,
	}
	d.Gain, d.Low, d.High = g.numbers(g.rollback.Gain())
	g.demotions++
	g.champion, g.before, g.challenger, g.rollback = g.before, nil, nil, RollbackTest{}
	g.last = d.String()
	g.tell(d)
}

func (g *gate) tell(d promote.Decision) {
	if g.decided != nil {
		g.decided(d)
	}
}

// predict returns the predictions of a snapshot, or nil without one.
func (s *snapshot) predict(xs []stream.Vec) *promote.Predictions {
	if s == nil {
		return nil
	}
	return promote.Predict(s.pipe, xs)
}

// loss returns the loss on example i, in [0,1]; 0 without a model, and 1 if it is
// unknown.
func (g *gate) loss(a *promote.Predictions, i int, y float64) float64 {
	if a == nil {
		return 0
	}
	f, p := a.Of(i)
	v := 1.0
	switch {
	case g.regress:
		v = min(math.Abs(f-y)/g.scale, 1)
	case g.rule.Measure == Error && a.K > 1:
		v = oneIf(f != y)
	case g.rule.Measure == Error:
		v = oneIf((f >= 0) != (y > 0))
	case a.K > 1 && a.Pipe.Softmax != nil:
		q := slices.Clone(a.V[i*a.K : (i+1)*a.K])
		a.Pipe.Softmax.Probabilities(q, q)
		v = compare.BrierClasses(q, int(y)) / 2
	case a.K == 1:
		v = compare.Brier(p, y > 0)
	}
	if v != v {
		return 1
	}
	return v
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// constant predicts from the earlier labels: their mean, their larger class, or the
// shares of the classes. A model that is worse is not worth promoting.
type constant struct {
	regress, classes, error bool
	seen                    []float64 // labels of each class
	n, mean, dev            float64   // of a regression, by Welford's method
}

// add returns the loss on the next label, and then adds the label.
func (c *constant) add(y, scale float64) (loss float64) {
	if c.regress {
		if scale > 0 {
			loss = min(math.Abs(c.mean-y)/scale, 1)
		}
		c.n++
		d := y - c.mean
		c.mean += d / c.n
		c.dev += float64(d * (y - c.mean))
		return loss
	}
	k := int(y)
	if !c.classes {
		k = int(oneIf(y > 0))
	}
	for len(c.seen) <= k {
		c.seen = append(c.seen, 0)
	}
	total, top := 0.0, 0
	for i, n := range c.seen {
		total += n
		if n > c.seen[top] {
			top = i
		}
	}
	switch {
	case total == 0:
		loss = 1
	case c.error:
		loss = oneIf(top != k)
	default:
		q := make([]float64, len(c.seen))
		for i, n := range c.seen {
			q[i] = n / total
		}
		loss = compare.BrierClasses(q, k) / 2
	}
	c.seen[k]++
	return loss
}
