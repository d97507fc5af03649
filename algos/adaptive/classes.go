package adaptive

import (
	"context"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// classes is the classifier of more than two classes: one-vs-rest experts for each class, and
// one mixer.
type classes struct {
	*samplers.Buffer
	mixer *mixer
	heads []*Learner       // the experts of each class
	all   algos.Sequential // the heads, as one learner

	none    []score // scores of a class without a version
	common  common
	choices choices
}

var (
	_ algos.Sequential    = (*classes)(nil)
	_ algos.PendingScorer = (*classes)(nil)
	_ algos.ClassAdder    = (*classes)(nil)
	_ algos.DriftReporter = (*classes)(nil)
	_ algos.Publisher     = (*classes)(nil)
	_ algos.Limited       = (*classes)(nil)
)

// record holds the scores of an example that a head has learned from and the mixer has not.
type record struct {
	scores []score
	aged   aged
	y      int
	weight float64
}

// maxBatch limits the examples that the heads learn from before the mixer does.
const maxBatch = 256

func newClasses(env algos.Env, o options, s *sizes) (algos.Learner, error) {
	c := &classes{choices: choices{keep: s.kept()}}
	var err error
	if c.Buffer, err = samplers.New(samplers.Options{Classes: true, Every: 1}); err != nil {
		return nil, err
	}
	one := env
	one.Classes, one.Against = 0, env.Classes
	all, err := ovr.New(env.Classes, func() (algos.Learner, error) {
		h, err := newExpertsOf(one, o, s)
		if err == nil {
			h.choices = &c.choices
			if len(c.heads) > 0 {
				h.first = c.heads[0]
				seen := h.first.detector.Seen()
				h.before = seen - min(seen, ovr.Remembered)
			}
			c.heads = append(c.heads, h)
			c.choices.classes = len(c.heads)
		}
		return h, err
	})
	if err != nil {
		return nil, err
	}
	c.all = all.(algos.Sequential)
	c.mixer = newMixer(env, env.Classes, c.heads[0].experts)
	c.none = make([]score, len(c.heads[0].experts))
	return c, nil
}

// AddClass implements algos.ClassAdder.
func (c *classes) AddClass(ctx context.Context) error {
	if err := c.all.(algos.ClassAdder).AddClass(ctx); err != nil {
		return err
	}
	c.heads[len(c.heads)-1].log = nil
	c.mixer.grow(len(c.heads))
	return nil
}

// scores returns of(h) for each head.
func (c *classes) scores(of func(h *Learner) []score) [][]score {
	out := make([][]score, len(c.heads))
	for k, h := range c.heads {
		if out[k] = of(h); out[k] == nil {
			out[k] = c.none
		}
	}
	return out
}

// Follow implements algos.Sequential.
func (c *classes) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := c.learn(ctx, c.Take().Join); err != nil {
		return 0, 0, err
	}
	return c.follow(ctx, dst, xs)
}

// learn cannot be cancelled: xs have left the buffer.
func (c *classes) learn(ctx context.Context, xs []*stream.Example) error {
	_, _, err := c.follow(ctx, make([]float64, len(xs)*len(c.heads)), xs)
	return err
}

func (c *classes) follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	ctx = context.WithoutCancel(ctx)
	lanes, p, first := len(c.heads), c.mixer.published, c.heads[0]
	for len(xs) > 0 {
		seen := first.detector.Seen()
		n := 0
		var known []*stream.Example
		for n < min(len(xs), maxBatch) && seen+uint64(len(known)) < p.look {
			if xs[n].Labelled {
				known = append(known, xs[n])
			}
			n++
		}
		if err := c.share(known); err != nil {
			return 0, 0, err
		}
		c.choices.add(known)
		if _, _, err := c.all.Follow(ctx, dst[:n*lanes], xs[:n]); err != nil {
			return 0, 0, err
		}
		c.choices.made = nil
		i := 0
		for at, x := range xs[:n] {
			if !x.Labelled {
				continue
			}
			scores := c.scores(func(h *Learner) []score { return h.log[i].scores })
			var old [][]score
			if first.log[i].aged.scores != nil {
				old = c.scores(func(h *Learner) []score { return h.log[i].aged.scores })
			}
			copy(dst[at*lanes:], c.mixer.predict(scores))
			c.mixer.learn(scores, old, c.outputs(i), int(x.Y), first.log[i].weight, first.log[i].aged.stands)
			i++
		}
		for _, h := range c.heads {
			h.log = h.log[:0]
		}
		xs, dst, learned = xs[n:], dst[n*lanes:], learned+i
		if seen += uint64(i); p.due(seen, c.changes()) {
			for _, h := range c.heads {
				if err := h.makeVersion(); err != nil {
					return 0, 0, err
				}
			}
			if err := c.joinVersions(); err != nil {
				return 0, 0, err
			}
			p.startVersion(seen, c.changes(), c.mixer.calibrators, c.mixer.stack, nil, c.center(), first.place)
		}
	}
	return learned, learned, nil
}

// outputs returns what the latest version's rules gave example i of the logs on its arrival, nil if
// the label was not late.
func (c *classes) outputs(i int) outputs {
	var out outputs
	for k, h := range c.heads {
		late := h.log[i].aged.out
		if late == nil {
			return nil
		}
		if out == nil {
			out = make(outputs, numOutputs*len(c.heads))
		}
		for r, v := range late {
			out[r*len(c.heads)+k] = v
		}
	}
	return out
}

// Limits implements algos.Limited. The stack keeps to the classes' rates, and with weights for rare
// classes probabilities and labels are worse, except for the rarest of all.
func (c *classes) Limits() algos.Limits { return algos.Limits{AutoUnweighted: true} }

// share computes what the heads have in common for xs, the examples that they learn from next.
// A head that was added later has seen fewer examples and does not take part. There is
// nothing to share while predictions wait for labels.
func (c *classes) share(xs []*stream.Example) error {
	first := c.heads[0]
	for _, h := range c.heads {
		h.shared = &c.mixer.published.schedule
		if h.common = nil; len(first.pending) == 0 && h.detector.Seen() == first.detector.Seen() {
			h.common = &c.common
		}
	}
	if first.common == nil {
		return nil
	}
	return c.common.prepare(first, xs)
}

// changes returns the change points of all heads, and the latest change.
func (c *classes) changes() (all changes) {
	for _, h := range c.heads {
		one := h.changes()
		all.cuts, all.before = all.cuts+one.cuts, max(all.before, one.before)
	}
	return all
}

func (c *classes) center() []float64 {
	var rates []float64
	for _, h := range c.heads {
		rates = append(rates, h.rate())
	}
	return c.mixer.center(rates...)
}

// Early implements algos.Publisher.
func (c *classes) Early() uint64 { return c.mixer.published.early }

// Step learns from the examples pending.
func (c *classes) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	err := c.learn(ctx, c.Take().Join)
	return c.Report(), err
}

// Finish learns from the pending examples and lets the experts complete their optimisation.
func (c *classes) Finish(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if err := c.learn(ctx, c.Take().Join); err != nil {
		return algos.Report{}, err
	}
	_, err := c.all.Finish(ctx)
	return c.Report(), err
}

// Add takes an example in.
func (c *classes) Add(x *stream.Example) (algos.Fate, error) {
	if err := ovr.Check(x, len(c.heads)); err != nil {
		return algos.SampledOut, err
	}
	if !x.Labelled {
		for _, h := range c.heads {
			h.takePending(x)
		}
	}
	return c.Buffer.Add(x)
}

// ScorePending implements algos.PendingScorer.
func (c *classes) ScorePending(dst []float64, x *stream.Example) {
	for _, h := range c.heads {
		h.PredictPending(x)
	}
	last := func(h *Learner) *prediction { return &h.pending[len(h.pending)-1].prediction }
	copy(dst, c.mixer.predict(c.scores(func(h *Learner) []score { return last(h).scores })))
	if c.mixer.published.versions == 0 {
		return
	}
	// Each class keeps its lane.
	lanes, out := len(c.heads), c.mixer.published.outputs(c.scores(func(h *Learner) []score { return last(h).aged.scores }))
	for k, h := range c.heads {
		for r := range numOutputs {
			last(h).aged.out = append(last(h).aged.out, out[r*lanes+k])
		}
	}
}

// model returns a model with the part of(h, lane) for each head.
func (c *classes) model(of func(h *Learner, lane int) *ensemble) algos.Model {
	parts, blank := make([]algos.Model, len(c.heads)), make([]bool, len(c.heads))
	for k, h := range c.heads {
		parts[k] = of(h, k)
	}
	return together(ovr.NewModel(parts, blank))
}

// Model returns a view of the present model.
func (c *classes) Model() algos.Model {
	return c.model(func(h *Learner, lane int) *ensemble { return h.present(c.mixer, lane) })
}

// Published implements algos.Publisher.
func (c *classes) Published() algos.Model {
	center := c.center()
	return c.model(func(h *Learner, lane int) *ensemble {
		m := h.toPublish(c.mixer, lane, c.heads[0].place)
		m.center = center[lane]
		return m
	})
}

// Calibrated implements algos.Publisher. Class weights distort the probabilities.
func (c *classes) Calibrated() (shift float64, ok bool) { return 0, c.heads[0].maxWeight == 0 }

// ChangePoints implements algos.DriftReporter.
func (c *classes) ChangePoints() (total uint64, latest []compare.ChangePoint) {
	return c.all.(algos.DriftReporter).ChangePoints()
}

// Report describes the state of the heads and the weights that they share.
func (c *classes) Report() algos.Report {
	r := c.all.Report()
	r.Gauges = slices.Clone(r.Gauges)
	for e := range c.none {
		r.Gauges[e].Value = c.mixer.stack.w[e]
	}
	return r
}

func (c *classes) fields(f *state.Fields) {
	f.Group("buffer", c.Buffer.Fields)
	f.Nested("learner", c.all.AppendBinary, c.all.UnmarshalBinary)
	if f.Decoding() && f.Err() == nil {
		n := c.all.Model().(algos.Scorer).Classes()
		c.heads, c.common = c.heads[:n], common{}
		f.Fail("learner", c.choices.restore(c.heads))
		c.mixer = newMixer(c.heads[0].env, n, c.heads[0].experts)
		f.Fail("learner", c.joinVersions())
	}
	f.Group("mixer", c.mixer.fields)
}

// joinVersions lets the versions of the classes share what is equal in them.
func (c *classes) joinVersions() error {
	var list []algos.Model
	for _, h := range c.heads {
		if h.version != nil {
			list = append(list, h.version)
		}
	}
	return complete(together(ovr.NewModel(list, make([]bool, len(list)))))
}

// AppendBinary appends the complete state.
func (c *classes) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, c.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is undefined.
func (c *classes) UnmarshalBinary(data []byte) error { return state.Decode(data, c.fields) }
