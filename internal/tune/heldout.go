package tune

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/stream"
)

// family is a set of trials that differ only in c, ascending.
type family struct {
	trials []*trial
	cs     []float64
}

// families groups the trials. It returns nil if c is not tuned.
func families(trials []*trial) []family {
	byRest := map[string]int{}
	var out []family
	for _, t := range slices.SortedFunc(slices.Values(trials), func(a, b *trial) int { return cmp.Compare(a.order, b.order) }) {
		c, err := strconv.ParseFloat(t.options["c"], 64)
		if err != nil {
			return nil
		}
		rest := maps.Clone(t.options)
		delete(rest, "c")
		key := fmt.Sprint(rest)
		i, ok := byRest[key]
		if !ok {
			i = len(out)
			byRest[key] = i
			out = append(out, family{})
		}
		out[i].trials, out[i].cs = append(out[i].trials, t), append(out[i].cs, c)
	}
	return out
}

// validates reports whether the learner is a CrossValidator and c is tuned.
func validates(spec algos.Spec, env algos.Env, trials []*trial) bool {
	if env.Task != algos.Classify || env.Classes > 2 || families(trials) == nil {
		return false
	}
	l, err := spec.New(env, trials[0].all)
	_, ok := l.(algos.CrossValidator)
	return ok && err == nil
}

// validate sets the scores of the trials like score, for a CrossValidator.
func validate(ctx context.Context, spec algos.Spec, env algos.Env, d *data, size int, trials []*trial, w *work) error {
	var xs []*stream.Example
	var fold []int
	for k, f := range d.part(size) {
		for _, x := range f.test {
			xs, fold = append(xs, x), append(fold, k)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fs := families(trials)
	par.Each(len(fs), func(i int) {
		f := fs[i]
		if ctx.Err() != nil {
			return
		}
		l, err := spec.New(env, f.trials[0].all)
		if err != nil {
			cancel(err)
			return
		}
		decisions := l.(algos.CrossValidator).HeldOut(xs, fold, f.cs)
		for k, t := range f.trials {
			t.set(sumOf(decisions[k*len(xs):(k+1)*len(xs)], xs, env.Task), env.Task)
		}
		w.add(len(f.trials) * size)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	weigh(trials, size, env.Task)
	return nil
}
