package adaptive

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/tune"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	tick      = 16 // examples between two steps of a kernel learner
	chosenFor = 4  // times that a challenger's window is replaced before it is tuned again
)

// kernelLearner is a kernel SVM, or a kernel ridge regression, with its own scaling and
// options, which were chosen on the examples that it started with.
type kernelLearner struct {
	sizes     *sizes
	window    int // size limit in examples; 0: none
	target    target
	growing   bool // not a challenger
	choice    choice
	transform *prep.Transform
	small     *window // either small or scs is set
	scs       algos.Learner
	options   map[string]string
	rows      int // examples learned from, at most window
	tuned     int // rows when it was tuned
	since     int // examples since it was tuned
}

func (m *kernelLearner) model() algos.Model {
	if m.scs != nil {
		return m.scs.Model()
	}
	return m.small.expansion()
}

// decide sets dst to the model's decisions.
func (m *kernelLearner) decide(dst []float64, xs []stream.Vec) {
	if m.scs != nil {
		m.scs.Model().Decisions(dst, xs)
		return
	}
	m.small.decide(dst, xs)
}

func (m *kernelLearner) evals() int64 {
	if m.scs != nil {
		return max(0, m.scs.Report().KernelEvals)
	}
	return m.small.evals
}

// add takes an example whose features, scaled by m.transform, are z.
func (m *kernelLearner) add(x *stream.Example, z stream.Vec) error {
	c := *x
	c.X, c.Y = z, x.Y-m.target.center
	if m.scs != nil {
		if _, err := m.scs.Add(&c); err != nil {
			return err
		}
	} else {
		m.small.add(&c)
	}
	m.since++
	if m.rows++; m.window > 0 {
		m.rows = min(m.rows, m.window)
	}
	return nil
}

// step trains on the examples added; it is called at each tick.
func (m *kernelLearner) step(ctx context.Context) error {
	if m.scs != nil {
		return algos.StepDue(ctx, m.scs, nil)
	}
	m.small.step()
	return nil
}

// due reports whether to tune again: when the sample has doubled, when the window has been
// replaced chosenFor times, when scs takes over, and once more at sizes.whole examples if
// there has been no cut.
func (m *kernelLearner) due(cut bool) bool {
	switch {
	case m.scs != nil:
		return !cut && m.rows >= m.sizes.whole && m.tuned < m.sizes.whole
	case m.window > 0 && m.rows == m.window && m.since >= chosenFor*m.window:
		return true
	case m.window == 0 && m.rows >= m.sizes.large:
		return true
	}
	return m.rows >= 2*m.tuned
}

// choose fits the scaling and the options to xs, and trains on xs. Of several classes, it uses what
// choices has for the examples before number seen.
func (m *kernelLearner) choose(ctx context.Context, env algos.Env, xs []*stream.Example, wide bool, c *choices, seen uint64) error {
	m.tuned, m.since = len(xs), 0
	m.target.fit(xs)
	grown := m.window == 0 && len(xs) >= m.sizes.large
	o := prep.Options{Scale: prep.Auto, Scaled: env.Scaled}
	if wide && !grown && !slices.Contains(env.Scaled, true) {
		o.Scale = prep.Unit
	}
	whole := len(xs) >= m.sizes.whole && (c == nil || !wide)
	if whole { // enough for a choice of each class's own, except of wide examples
		c = nil
	}
	weigh := (m.growing || m.target.number) && (!wide || slices.Contains(env.Scaled, true))
	by, err := c.scaling(choiceOf{seen, len(xs), o.Scale, weigh}, xs, func(lanes [][]float64) (scaling, error) {
		t, err := prep.Fit(xs, o)
		if err != nil {
			return scaling{}, err
		}
		s := newScaling(xs, lanes, t, m.target, env.Seed)
		if weigh {
			s = s.weighted(xs, m.target, env.Seed)
		}
		return s.orLaplacian(m.target, env.Seed), nil
	})
	if err != nil {
		return err
	}
	m.transform, m.choice = by.transform, by.choice
	own := by.examples
	if !grown {
		m.learn(own)
		return nil
	}
	m.options = map[string]string{}
	maps.Copy(m.options, m.sizes.scs)
	if m.choice.gamma < 0 {
		m.options["kernel"] = "laplacian"
	}
	if whole {
		res, err := tune.Run(ctx, scs.Spec, env, m.options, own, nil)
		if err != nil {
			return err
		}
		m.options = res.Options
	} else {
		m.options["c"] = strconv.FormatFloat(m.choice.c, 'g', -1, 64)
		m.options["gamma"] = strconv.FormatFloat(math.Abs(m.choice.gamma), 'g', -1, 64)
	}
	if m.scs, err = scs.Spec.New(env, m.options); err != nil {
		return err
	}
	m.small, m.rows = nil, len(own)
	_, err = algos.Feed(ctx, m.scs, own...)
	return err
}

// learn trains a new window on scaled examples.
func (m *kernelLearner) learn(own []*stream.Example) {
	old := m.small
	m.small = m.newWindow()
	if old != nil { // reuse its memory, which is large
		m.small.box.Gram = old.box.Gram
	}
	m.small.fill(own)
	m.rows = len(own)
}

func (m *kernelLearner) newWindow() *window {
	size := m.window
	if size == 0 {
		size = m.sizes.large + tick
	}
	return newWindow(size, m.choice.c, kernelOf(m.choice.gamma), m.target)
}

// with returns a learner with the scaling and options of m, trained on the newest examples.
// It reuses the memory of ended, which may be nil.
func (m *kernelLearner) with(size int, newest []*stream.Example, ended *window) *kernelLearner {
	k := &kernelLearner{sizes: m.sizes, window: size, target: m.target, choice: m.choice, transform: m.transform, small: ended, tuned: m.tuned, since: m.since}
	k.learn(scaled(newest, k.transform, k.target))
	return k
}

// fields describes the state.
func (m *kernelLearner) fields(f *state.Fields, env algos.Env) {
	f.Int("rows", &m.rows)
	f.Int("tuned", &m.tuned)
	f.Int("since", &m.since)
	f.Group("choice", m.choice.fields)
	if f.Decoding() {
		m.transform = new(prep.Transform)
	}
	f.Group("transform", m.transform.Fields)
	m.target.fields(f)
	grown := m.scs != nil
	f.Bool("grown", &grown)
	if f.Decoding() && f.Err() == nil && (m.rows < 1 || m.tuned < 1 || m.since < 0 || m.window > 0 && (m.rows > m.window || grown)) {
		f.Fail("rows", fmt.Errorf("%d, %d, %d", m.rows, m.tuned, m.since))
	}
	if f.Err() != nil {
		return
	}
	if !grown {
		if f.Decoding() {
			m.small = m.newWindow()
		}
		f.Group("window", m.small.fields)
		return
	}
	var names, values []string
	if !f.Decoding() {
		for _, k := range slices.Sorted(maps.Keys(m.options)) {
			names, values = append(names, k), append(values, m.options[k])
		}
	}
	f.List("options", len(names), 2, func(n int) { names, values = make([]string, n), make([]string, n) }, func(f *state.Fields, i int) {
		f.String("name", &names[i])
		f.String("value", &values[i])
	})
	f.Nested("scs", func(dst []byte) ([]byte, error) { return m.scs.AppendBinary(dst) }, func(data []byte) error {
		m.options = map[string]string{}
		for i, k := range names {
			m.options[k] = values[i]
		}
		l, err := scs.Spec.New(env, m.options)
		if err == nil {
			m.scs, err = l, l.UnmarshalBinary(data)
		}
		return err
	})
}
