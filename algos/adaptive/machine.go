package adaptive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/baseline/smo"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/tune"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	tick  = 16   // examples between two steps of a machine
	first = 64   // examples of the first one
	large = 4000 // examples from which on the growing machine is scs, tuned as a learner is that stands alone
)

// machine is a kernel expert: a learner with a scaling and options of its own,
// which were chosen on the examples that it began with.
type machine struct {
	window    int // most examples that it holds; 0: all
	large     bool
	options   map[string]string
	transform *prep.Transform
	learner   algos.Learner
	rows      int // examples that it has learned from, at most window
	tuned     int // of those, when its options were chosen
	since     int // examples since then
}

// score sets dst to the decisions.
func (m *machine) score(dst []float64, xs []stream.Vec) {
	zs := make([]stream.Vec, len(xs))
	for i, x := range xs {
		zs[i] = m.transform.Apply(x)
	}
	m.learner.Model().Decisions(dst, zs)
}

// add hands over an example.
func (m *machine) add(x *stream.Example) error {
	c := *x
	c.X = m.transform.Apply(x.X)
	if _, err := m.learner.Add(&c); err != nil {
		return err
	}
	m.since++
	if m.rows++; m.window > 0 {
		m.rows = min(m.rows, m.window)
	}
	return nil
}

// due reports whether options are to be chosen anew: where the sample has
// doubled, or has been replaced twice.
func (m *machine) due() bool {
	switch {
	case m.large:
		return false
	case m.window > 0 && m.rows == m.window:
		return m.since >= 2*m.window || m.rows >= 2*m.tuned
	}
	return m.rows >= 2*m.tuned || m.window == 0 && m.rows >= large
}

func (m *machine) spec() algos.Spec {
	if m.large {
		return scs.Spec
	}
	return smo.Spec
}

// build makes the learner and lets it learn from the examples.
func (m *machine) build(ctx context.Context, env algos.Env, xs []*stream.Example) error {
	own := make([]*stream.Example, len(xs))
	for i, x := range xs {
		c := *x
		c.X = m.transform.Apply(x.X)
		own[i] = &c
	}
	return m.learn(ctx, env, own)
}

// learn is build with examples that are scaled.
func (m *machine) learn(ctx context.Context, env algos.Env, own []*stream.Example) error {
	l, err := m.spec().New(env, m.options)
	if err != nil {
		return err
	}
	if !m.large {
		for _, x := range own {
			if _, err := l.Add(x); err != nil {
				return err
			}
		}
		if _, err := l.Finish(ctx); err != nil {
			return err
		}
	} else if _, err := algos.Feed(ctx, l, own...); err != nil {
		return err
	}
	m.learner, m.rows = l, len(own)
	return nil
}

// choose chooses the options of a machine on xs, its examples, and lets it
// learn from them.
func (m *machine) choose(ctx context.Context, env algos.Env, xs []*stream.Example, wide bool) error {
	m.large = m.window == 0 && len(xs) >= large
	m.tuned, m.since = len(xs), 0
	o := prep.Options{Scale: prep.Auto}
	if wide && !m.large {
		o.Scale = prep.Unit
	}
	t, err := prep.Fit(xs, o)
	if err != nil {
		return err
	}
	m.transform = t
	own := make([]*stream.Example, len(xs))
	for i, x := range xs {
		c := *x
		c.X = t.Apply(x.X)
		own[i] = &c
	}
	if m.large {
		res, err := tune.Run(ctx, scs.Spec, env, nil, own)
		if err != nil {
			return err
		}
		m.options = res.Options
		return m.learn(ctx, env, own)
	}
	m.options = smoOptions(cmp.Or(m.window, large))
	maps.Copy(m.options, best(ctx, env, own, wide))
	return m.learn(ctx, env, own)
}

// smoOptions are those of a machine with a window.
func smoOptions(window int) map[string]string {
	return map[string]string{"buffer": strconv.Itoa(window), "every": strconv.Itoa(tick), "updates": "128", "cache": "16", "tol": "0.01", "final": "10"}
}

// block is the most examples that options are chosen on.
const block = 1536

// best chooses C and the kernel: a machine learns from the first two thirds of
// the newest examples, and its errors on the others count. Of equal ones the
// first in the order of γ, then C, is taken.
func best(ctx context.Context, env algos.Env, xs []*stream.Example, wide bool) map[string]string {
	xs = xs[max(0, len(xs)-block):]
	n := 2 * len(xs) / 3
	fit, test := xs[:n], xs[n:]
	var grid []map[string]string
	if wide {
		for _, c := range []string{"0.1", "0.5", "2", "10", "50"} {
			grid = append(grid, map[string]string{"kernel": "linear", "c": c})
		}
	} else {
		g := gamma(fit, env.Seed)
		for _, q := range []float64{0.25, 1, 4, 16} {
			for _, c := range []string{"0.5", "4", "32"} {
				grid = append(grid, map[string]string{"gamma": strconv.FormatFloat(g*q, 'g', 6, 64), "c": c})
			}
		}
	}
	right := make([]int, len(grid))
	parallel(len(grid), func(i int) {
		right[i] = rightOn(ctx, env, grid[i], fit, test)
	})
	k := 0
	for i, r := range right {
		if r > right[k] {
			k = i
		}
	}
	return grid[k]
}

// rightOn returns how many of test a machine with the options gets right that
// has learned from fit.
func rightOn(ctx context.Context, env algos.Env, options map[string]string, fit, test []*stream.Example) (n int) {
	all := smoOptions(len(fit))
	maps.Copy(all, options)
	env.Log = nil
	l, err := smo.Spec.New(env, all)
	if err != nil {
		return 0
	}
	for _, x := range fit {
		if _, err := l.Add(x); err != nil {
			return 0
		}
	}
	if _, err := l.Finish(ctx); err != nil {
		return 0
	}
	out := make([]float64, len(test))
	l.Model().Decisions(out, samplers.Vecs(test))
	for i, x := range test {
		if (out[i] >= 0) == (x.Y > 0) {
			n++
		}
	}
	return n
}

// fields describes the state.
func (m *machine) fields(f *state.Fields, env algos.Env) {
	f.Bool("large", &m.large)
	f.Int("rows", &m.rows)
	f.Int("tuned", &m.tuned)
	f.Int("since", &m.since)
	var names, values []string
	if !f.Decoding() {
		for _, k := range sortedKeys(m.options) {
			names, values = append(names, k), append(values, m.options[k])
		}
	}
	f.List("options", len(names), 2, func(n int) { names, values = make([]string, n), make([]string, n) }, func(f *state.Fields, i int) {
		f.String("name", &names[i])
		f.String("value", &values[i])
	})
	if f.Decoding() {
		m.options, m.transform = map[string]string{}, new(prep.Transform)
		for i, k := range names {
			m.options[k] = values[i]
		}
	}
	f.Group("transform", m.transform.Fields)
	var data []byte
	if !f.Decoding() {
		var err error
		data, err = m.learner.AppendBinary(nil)
		f.Fail("learner", err)
	}
	f.Bytes("learner", &data)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if m.rows < 1 || m.tuned < 1 || m.since < 0 || m.window > 0 && (m.rows > m.window || m.large) {
		f.Fail("rows", fmt.Errorf("%d, %d, %d", m.rows, m.tuned, m.since))
		return
	}
	l, err := m.spec().New(env, m.options)
	if err == nil {
		err = l.UnmarshalBinary(data)
	}
	if err != nil {
		f.Fail("learner", errors.Join(errors.New("it cannot be restored"), err))
		return
	}
	m.learner = l
}
