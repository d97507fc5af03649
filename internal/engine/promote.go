package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/gate"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
)

// promoter holds a champion and a candidate for its place, both frozen, and asks
// them about every labelled example that comes after they were made. The learner
// itself is not what is compared: what it said before is no evidence for what it
// has become since.
//
// All of it is a function of the stream, as learning is, and has no influence on
// it. Candidates are taken only where the number of labelled examples reaches a
// multiple of grid, with all work done that is due by then.
type promoter struct {
	rule    gate.Rule
	text    string // of the rule
	grid    uint64
	at      uint64 // examples/grid at the last look
	regress bool
	classes bool

	champion, candidate, before *frozen // nil where there is none
	trial                       gate.Trial
	measures                    *eval.Prequential // of the candidate
	back                        gate.Back
	served                      *eval.Prequential // of the champion of the moment
	seen                        []float64         // labels of each class
	mean, dev, n                float64           // of labels, Welford's
	scale                       float64           // see gate.Trial.Add
	inputs, inputsBefore        *events.Histogram // nil without a schema
	promotions, rejections      uint64
	demotions                   uint64

	todo   []stream.Example   // labelled, as they came, not scored yet; empty in a snapshot
	labels uint64             // labelled examples scored
	last   string             // why the champion is the one it is
	why    string             // the candidate waits; no part of the state
	decide func(GateDecision) // if not nil, is told
	serve  func(said float64) // if not nil, is told what the champion says
}

// frozen is a model as it was after so many labelled examples.
type frozen struct {
	examples       uint64
	payload        []byte
	pipe           *pipeline.Pipeline
	learned, steps uint64
	offsets        stream.Offsets
	evaluation     []stream.Measure
}

// GateDecision is what has become of a candidate, or of the champion.
type GateDecision struct {
	// At is the number of labelled examples that had come, Model that at which the
	// model in question was frozen: the one promoted or rejected, and of a demotion
	// the one that comes back.
	At    uint64 `json:"at"`
	Model uint64 `json:"model"`
	// Verdict is promoted, rejected or demoted.
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	// Examples is the number of those compared on; Gain is by how much the mean loss
	// of the champion was higher on them, Low and High bound that.
	Examples uint64      `json:"examples"`
	Gain     eval.Number `json:"gain"`
	Low      eval.Number `json:"low"`
	High     eval.Number `json:"high"`
	// Loss is the mean loss of the model, Baseline that of the larger class or of
	// the mean of labels.
	Loss     eval.Number `json:"loss"`
	Baseline eval.Number `json:"baseline"`
}

// String is for people.
func (d GateDecision) String() string {
	s := fmt.Sprintf("at %d: the model of %d examples is %s: %s", d.At, d.Model, d.Verdict, d.Why)
	if d.Gain == d.Gain {
		s += fmt.Sprintf("; gain %.4f, %.4f to %.4f, on %d examples", d.Gain, d.Low, d.High, d.Examples)
	}
	return s
}

// GateReport says how things stand at the gate.
type GateReport struct {
	Rule string `json:"rule"`
	// Champion and Candidate are the numbers of labelled examples after which they
	// were frozen, 0 for none.
	Champion  uint64 `json:"champion"`
	Candidate uint64 `json:"candidate"`
	// Of the candidate, as in GateDecision; NaN without one.
	Examples uint64      `json:"examples"`
	Gain     eval.Number `json:"gain"`
	Low      eval.Number `json:"low"`
	High     eval.Number `json:"high"`
	Waits    string      `json:"waits"` // why it is not promoted
	// What has been decided so far.
	Promotions uint64 `json:"promotions"`
	Rejections uint64 `json:"rejections"`
	Demotions  uint64 `json:"demotions"`
	// Served are the measures of what the champions said, each while it was the
	// champion, of the labelled examples after the first one was promoted.
	Served eval.Measures `json:"served"`
	// ServedExamples is their number.
	ServedExamples uint64 `json:"served_examples"`
}

func newPromoter(text string, regress, classes bool, schema string) (*promoter, error) {
	rule, err := gate.Parse(text, regress, classes)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	p := &promoter{rule: rule, text: rule.String(), grid: max(100, uint64(rule.Examples)/5), regress: regress, classes: classes}
	p.served, p.measures = p.fresh(), p.fresh()
	if schema != "" {
		s, err := events.Parse(schema)
		if err != nil {
			return nil, err
		}
		p.inputs, p.inputsBefore = events.NewHistogram(s), events.NewHistogram(s)
	}
	return p, nil
}

// fresh returns measures without a window.
func (p *promoter) fresh() *eval.Prequential {
	if p.classes {
		return eval.NewClasses(1)
	}
	return eval.New(p.regress, 1)
}

// Gate says how things stand at the gate; nil without one.
func (e *Engine) Gate() *GateReport {
	p := e.promoter
	if p == nil {
		return nil
	}
	nan := eval.Number(math.NaN())
	r := &GateReport{
		Rule: p.text, Champion: p.champion.id(), Candidate: p.candidate.id(), Gain: nan, Low: nan, High: nan,
		Promotions: p.promotions, Rejections: p.rejections, Demotions: p.demotions,
		Served: p.served.Summary().Measures, ServedExamples: p.served.Examples(),
	}
	if r.Waits = p.why; p.candidate == nil {
		r.Waits = "there is no candidate"
	}
	if p.candidate != nil {
		mean, low, high := p.trial.Gain()
		r.Examples = p.trial.N()
		if p.champion != nil {
			r.Gain, r.Low, r.High = p.number(mean), p.number(low), p.number(high)
		}
	}
	return r
}

// number gives a loss in terms of the rule.
func (p *promoter) number(loss float64) eval.Number {
	return eval.Number(loss * p.unit())
}

// unit is what a loss of 1 stands for in terms of the rule.
func (p *promoter) unit() float64 {
	if p.regress && p.scale > 0 {
		return p.scale
	}
	return 1
}

func (f *frozen) id() uint64 {
	if f == nil {
		return 0
	}
	return f.examples
}

// moves counts the changes of the champion.
func (p *promoter) moves() uint64 { return p.promotions + p.demotions }

// challenge takes a candidate if one is due, and reports whether it has. Where it
// fails nothing has changed.
func (e *Engine) challenge(ctx context.Context) (bool, error) {
	p := e.promoter
	if !e.started || e.counts.Labelled/p.grid == p.at {
		return false, nil
	}
	if err := e.Settle(ctx); err != nil {
		return false, err
	}
	p.at = e.counts.Labelled / p.grid
	if p.candidate != nil {
		return false, nil
	}
	pipe := e.Predictor()
	if pipe == nil || p.regress && p.n < 2 || p.rule.Measure == gate.Brier && pipe.Probability == nil && pipe.Softmax == nil {
		return false, nil
	}
	payload, err := pipe.AppendBinary(nil)
	if err != nil {
		return false, fmt.Errorf("encoding the candidate: %w", err)
	}
	c := &frozen{
		examples: e.counts.Labelled, payload: payload, learned: e.counts.Learned, steps: e.Report().Step,
		offsets: e.Offsets(), evaluation: e.Evaluation(),
	}
	if c.pipe, err = pipeline.Decode(payload); err != nil {
		return false, fmt.Errorf("the candidate: %w", err)
	}
	if p.regress && p.scale == 0 {
		if p.scale = 4 * math.Sqrt(p.dev/p.n); !(p.scale > 0) {
			p.scale = 1
		}
	}
	p.candidate, p.trial, p.measures, p.why = c, gate.Trial{}, p.fresh(), "there are too few examples yet"
	if p.inputs != nil {
		if p.inputs.N() >= inputsLeast {
			p.inputsBefore.Clear()
		}
		p.inputsBefore.Join(p.inputs)
		p.inputs.Clear()
	}
	return true, nil
}

// inputsLeast is the number of vectors that are compared with.
const inputsLeast = 500

// begin takes note of the labels of the warm-up.
func (p *promoter) begin(warm []*stream.Example) {
	for _, x := range warm {
		if x.Labelled {
			p.labels++
			p.baseline(x.Y)
		}
	}
}

// note keeps a labelled example, as it came, to be scored.
func (p *promoter) note(x *stream.Example) {
	if p != nil && x.Labelled {
		p.todo = append(p.todo, stream.Example{X: x.X, Y: x.Y})
	}
}

// answers are what a model says of examples: decisions, or scores of k classes.
type answers struct {
	pipe *pipeline.Pipeline
	k    int
	v    []float64
}

func ask(f *frozen, xs []stream.Vec) *answers {
	if f == nil {
		return nil
	}
	a := &answers{pipe: f.pipe, k: 1}
	if m, ok := f.pipe.Model.(algos.Scorer); ok && m.Classes() > 2 {
		a.k = m.Classes()
	}
	a.v = make([]float64, a.k*len(xs))
	if a.k > 1 {
		f.pipe.Scores(a.v, xs)
	} else {
		f.pipe.Decisions(a.v, xs)
	}
	return a
}

// said returns the decision on example i, or the number of the class, and the
// probability of a positive label, NaN where there is none.
func (a *answers) said(i int) (f, probability float64) {
	if a.k > 1 {
		return float64(algos.Largest(a.v[i*a.k : (i+1)*a.k])), math.NaN()
	}
	f, probability = a.v[i], math.NaN()
	if a.pipe.Probability != nil {
		probability = a.pipe.Probability.Probability(f)
	}
	return f, probability
}

// loss returns the loss on example i in [0,1].
func (p *promoter) loss(a *answers, i int, y float64) float64 {
	if a == nil {
		return 0
	}
	f, prob := a.said(i)
	v := 1.0
	switch {
	case p.regress:
		v = min(math.Abs(f-y)/p.scale, 1)
	case p.rule.Measure == gate.Error && a.k > 1:
		v = oneIf(f != y)
	case p.rule.Measure == gate.Error:
		v = oneIf((f >= 0) != (y > 0))
	case a.k > 1 && a.pipe.Softmax != nil:
		q := slices.Clone(a.v[i*a.k : (i+1)*a.k])
		a.pipe.Softmax.Probabilities(q, q)
		v = brier(q, int(y))
	case a.k == 1:
		d := prob - oneIf(y > 0)
		v = float64(d * d)
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

// brier is half of the sum of squares over the classes.
func brier(q []float64, y int) float64 {
	sum := 0.0
	for k, v := range q {
		d := v - oneIf(k == y)
		sum += float64(d * d)
	}
	if y >= len(q) {
		sum++
	}
	return sum / 2
}

// baseline returns the loss of the rule that knows nothing but the labels before,
// and takes note of y.
func (p *promoter) baseline(y float64) (loss float64) {
	if p.regress {
		if p.scale > 0 {
			loss = min(math.Abs(p.mean-y)/p.scale, 1)
		}
		p.n++
		d := y - p.mean
		p.mean += d / p.n
		p.dev += float64(d * (y - p.mean))
		return loss
	}
	k := int(y)
	if !p.classes {
		k = int(oneIf(y > 0))
	}
	for len(p.seen) <= k {
		p.seen = append(p.seen, 0)
	}
	total, top := 0.0, 0
	for c, n := range p.seen {
		total += n
		if n > p.seen[top] {
			top = c
		}
	}
	switch {
	case total == 0:
		loss = 1
	case p.rule.Measure == gate.Error:
		loss = oneIf(top != k)
	default:
		q := make([]float64, len(p.seen))
		for c, n := range p.seen {
			q[c] = n / total
		}
		loss = brier(q, k)
	}
	p.seen[k]++
	return loss
}

// score asks champion and candidate about the examples that have come, before the
// learner has seen them, and decides after each of them.
func (p *promoter) score() {
	for p != nil && len(p.todo) > 0 {
		xs := make([]stream.Vec, len(p.todo))
		for i := range xs {
			xs[i] = p.todo[i].X
		}
		champion, candidate, before := ask(p.champion, xs), ask(p.candidate, xs), ask(p.returning(), xs)
		done := 0
		for i := range p.todo {
			done++
			if p.one(&p.todo[i], i, champion, candidate, before) {
				break // by other models from here on
			}
		}
		clear(p.todo[:done])
		p.todo = append(p.todo[:0], p.todo[done:]...)
	}
}

// returning returns the champion before, if it may come back.
func (p *promoter) returning() *frozen {
	if p.rule.Demote > 0 {
		return p.before
	}
	return nil
}

// one scores example i, and reports whether one of the models has changed.
func (p *promoter) one(x *stream.Example, i int, champion, candidate, before *answers) bool {
	p.labels++
	base := p.baseline(x.Y)
	l := gate.Losses{Candidate: p.loss(candidate, i, x.Y), Champion: p.loss(champion, i, x.Y), Baseline: base}
	if p.inputs != nil {
		p.inputs.Add(x.X)
	}
	said := math.NaN()
	if champion != nil {
		var prob float64
		said, prob = champion.said(i)
		p.served.Add(said, x.Y)
		if prob == prob {
			p.served.AddProbability(prob, x.Y > 0)
		}
	}
	if p.serve != nil {
		p.serve(said)
	}
	if champion != nil {
		if before != nil {
			p.back.Add(l.Champion, p.loss(before, i, x.Y))
			if p.back.Demote(&p.rule, p.unit()) {
				p.demote()
				return true
			}
		}
	}
	if candidate == nil {
		return false
	}
	f, prob := candidate.said(i)
	p.measures.Add(f, x.Y)
	if prob == prob {
		p.measures.AddProbability(prob, x.Y > 0)
	}
	p.trial.Add(&p.rule, l, p.unit())
	verdict, why := p.trial.Verdict(&p.rule, champion != nil, p.unit(),
		func() eval.Measures { return p.measures.Summary().Measures },
		func() string {
			if p.inputs == nil {
				return ""
			}
			return p.inputs.Drift(p.inputsBefore)
		})
	if p.why = why; verdict == gate.Wait {
		return false
	}
	mean, low, high := p.trial.Gain()
	loss, baseline := p.trial.Loss()
	d := GateDecision{
		At: p.labels, Model: p.candidate.examples, Verdict: string(verdict), Why: why, Examples: p.trial.N(),
		Gain: p.number(mean), Low: p.number(low), High: p.number(high), Loss: p.number(loss), Baseline: p.number(baseline),
	}
	if champion == nil {
		d.Gain = eval.Number(math.NaN())
		d.Low, d.High = d.Gain, d.Gain
	}
	if verdict == gate.Promote {
		p.promotions++
		p.last = d.String()
		p.before, p.champion, p.back = p.champion, p.candidate, gate.Back{}
	} else {
		p.rejections++
	}
	p.candidate = nil
	p.tell(d)
	return true
}

// demote puts the champion before back, and the candidate, which was compared
// with the one that goes, aside.
func (p *promoter) demote() {
	mean, low, high := p.back.Gain()
	nan := eval.Number(math.NaN())
	d := GateDecision{
		At: p.labels, Model: p.before.examples, Verdict: "demoted", Examples: p.back.N(),
		Why:  fmt.Sprintf("the model of %d examples, promoted after it, is worse", p.champion.examples),
		Gain: p.number(mean), Low: p.number(low), High: p.number(high), Loss: nan, Baseline: nan,
	}
	p.demotions++
	p.champion, p.before, p.candidate, p.back = p.before, nil, nil, gate.Back{}
	p.last = d.String()
	p.tell(d)
}

func (p *promoter) tell(d GateDecision) {
	if p.decide != nil {
		p.decide(d)
	}
}

// promoterFields describes what is part of a state only where there is a gate. A
// state without is taken on by an engine with one, and the other way round.
func (e *Engine) promoterFields(f *state.Fields) {
	p := e.promoter
	if !f.Next("gate") && (f.Decoding() || p == nil) {
		return
	}
	if p == nil {
		p, _ = newPromoter(gate.Auto, e.cfg.Task == algos.Regress, e.classes != nil, "")
	} else if f.Decoding() {
		p.classes = e.classes != nil
		p.served, p.measures = p.fresh(), p.fresh()
	}
	f.Group("gate", p.fields)
}

func (p *promoter) fields(f *state.Fields) {
	text := p.text
	f.String("rule", &text)
	f.Uint64("at", &p.at)
	f.Uint64("labels", &p.labels)
	f.Uint64("promotions", &p.promotions)
	f.Uint64("rejections", &p.rejections)
	f.Uint64("demotions", &p.demotions)
	f.String("last", &p.last)
	f.Float64s("seen", &p.seen)
	f.Float64("count", &p.n)
	f.Float64("mean", &p.mean)
	f.Float64("deviation", &p.dev)
	f.Float64("scale", &p.scale)
	for _, m := range []struct {
		name string
		at   **frozen
	}{{"champion", &p.champion}, {"candidate", &p.candidate}, {"before", &p.before}} {
		f.Group(m.name, func(f *state.Fields) { frozenFields(f, m.at) })
	}
	f.Group("trial", p.trial.Fields)
	f.Group("back", p.back.Fields)
	f.Group("measures", p.measures.Fields)
	f.Group("served", p.served.Fields)
	if f.Next("inputs") || !f.Decoding() && p.inputs != nil {
		a, b := p.inputs, p.inputsBefore
		if a == nil {
			a, b = events.NewHistogram(nil), events.NewHistogram(nil)
		}
		f.Group("inputs", a.State)
		f.Group("inputs_before", b.State)
	}
	if f.Decoding() && f.Err() == nil {
		if p.champion != nil && p.regress && !(p.scale > 0) {
			f.Fail("scale", errors.New("there is none"))
		}
		if text != p.text { // by another rule from here on
			p.candidate, p.back = nil, gate.Back{}
		}
	}
}

func frozenFields(f *state.Fields, at **frozen) {
	there := *at != nil
	f.Bool("there", &there)
	if !there || f.Err() != nil {
		if f.Decoding() {
			*at = nil
		}
		return
	}
	m := *at
	if f.Decoding() {
		m = new(frozen)
	}
	f.Uint64("examples", &m.examples)
	f.Uint64("learned", &m.learned)
	f.Uint64("steps", &m.steps)
	offsetFields(f, &m.offsets)
	f.List("evaluation", len(m.evaluation), 2, func(n int) { m.evaluation = make([]stream.Measure, n) }, func(f *state.Fields, i int) {
		f.String("name", &m.evaluation[i].Name)
		f.Float64("value", &m.evaluation[i].Value)
	})
	f.Bytes("payload", &m.payload)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	var err error
	if m.pipe, err = pipeline.Decode(m.payload); err != nil {
		f.Fail("payload", err)
	}
	*at = m
}
