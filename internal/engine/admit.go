package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// admission is the state that decides whether a record is accepted: the records
// accepted before it, and the limits of the learner. The preprocessing does
// not matter, since records must be accepted or refused before the warm-up has
// fitted it.
type admission struct {
	limits algos.Limits
	dim    int // number of features of dense examples; 0 before the first
	index  int // largest feature index so far, from 1
	// seen holds the features from dim on that were nonzero in some example; nil
	// unless limits.Distinct is set.
	seen map[int32]struct{}
}

// limits returns the learner's limits on examples. With hashing, there are none on their
// features.
func limits(cfg Config, env algos.Env, options map[string]string) (algos.Limits, error) {
	l, err := cfg.Spec.New(env, options)
	if err != nil {
		return algos.Limits{}, err
	}
	limited, ok := l.(algos.Limited)
	if !ok {
		return algos.Limits{}, nil
	}
	lim := limited.Limits()
	for _, most := range []int{lim.Features, lim.Distinct} {
		if most > 0 && cfg.HashDim > most {
			return lim, fmt.Errorf("learner %s takes at most %d features (option %s), but hashing gives %d", cfg.Spec.Name, most, lim.Option, cfg.HashDim)
		}
	}
	if cfg.HashDim > 0 {
		return algos.Limits{Unweighted: lim.Unweighted, AutoUnweighted: lim.AutoUnweighted}, nil
	}
	return lim, nil
}

// Admit sets it.Err if the example is well formed but does not fit the stream, the
// task or the learner: dense examples must agree on their dimension, numbers must
// be finite and below algos.TooLarge, indices must increase, labels must fit the
// task, and features must be within the learner's limits. Records must be admitted in order; Consume does so
// for its items. A new class gets its number here.
//
// This is the only place where an example can be refused. Its record can still
// become a dead letter here, and has not yet left a trace in preprocessing,
// measures or learner.
func (e *Engine) Admit(it *Item) {
	if it.Err == nil {
		it.Err = e.check(it)
	}
}

func (e *Engine) check(it *Item) *stream.RecordError {
	x := &it.Example
	refuse := func(stage stream.Stage, reason stream.Reason, field string, err error) *stream.RecordError {
		return &stream.RecordError{Topic: it.Partition.Topic, Partition: it.Partition.ID, Offset: it.Offset, Stage: stage, Reason: reason, Field: field, Err: err}
	}
	if len(it.Key) > maxKey {
		return refuse(stream.StageDecode, stream.ReasonTooLarge, "key", fmt.Errorf("%d bytes, the limit is %d", len(it.Key), maxKey))
	}
	if e.isLabel(it) {
		switch {
		case it.Key == "":
			return refuse(stream.StageLabel, stream.ReasonMissing, "key", errors.New("a label without a key"))
		case !x.Labelled:
			return refuse(stream.StageLabel, stream.ReasonMissing, "y", errors.New("there is none"))
		}
	} else if !x.X.Sparse() && e.admission.dim > 0 && len(x.X.Val) != e.admission.dim {
		return refuse(stream.StageFeature, stream.ReasonDimension, "x", fmt.Errorf("%d features where the stream has %d", len(x.X.Val), e.admission.dim))
	}
	if idx := x.X.Idx; idx != nil { // decoders check this, callers of trainer.Fit need not have
		if len(idx) != len(x.X.Val) {
			return refuse(stream.StageFeature, stream.ReasonDimension, "x", fmt.Errorf("%d indices of %d values", len(idx), len(x.X.Val)))
		}
		last := int32(-1)
		for _, j := range idx {
			if j <= last {
				return refuse(stream.StageFeature, stream.ReasonOrder, "x", fmt.Errorf("the index %d, want at least %d: they must increase from 0 on", j, last+1))
			}
			last = j
		}
	}
	if i, err := e.tooLarge(x.X.Val); err != nil {
		j := i
		if x.X.Sparse() {
			j = int(x.X.Idx[i])
		}
		return refuse(stream.StageFeature, stream.ReasonNotFinite, fmt.Sprintf("feature %d", j+1), err)
	}
	switch {
	case !x.Labelled || e.cfg.Task != algos.Classify:
	case e.classes != nil:
		if err := e.classes.check(x, e.cfg.MaxClasses); err != nil {
			return refuse(stream.StageLabel, stream.ReasonLabel, "y", err)
		}
	case x.Y != 1 && x.Y != -1:
		return refuse(stream.StageLabel, stream.ReasonLabel, "y", fmt.Errorf("label %v is neither +1 nor -1", x.Y))
	}
	if x.Labelled && x.Y-x.Y != 0 {
		return refuse(stream.StageLabel, stream.ReasonNotFinite, "y", errors.New("not a finite number"))
	}
	if x.Labelled && math.Abs(x.Y) >= algos.TooLarge {
		return refuse(stream.StageLabel, stream.ReasonNotFinite, "y", fmt.Errorf("%g is too large, the limit is %g", x.Y, algos.TooLarge))
	}
	if it.Sifted.P > 0 && it.Sifted.P < 1 && e.admission.limits.Unweighted {
		return refuse(stream.StageWeight, stream.ReasonLimit, sift.HeaderKey, fmt.Errorf("the record was sifted, and learner %s cannot weigh examples", e.cfg.Spec.Name))
	}
	if w := x.Importance(); !(w >= leastWeight && w <= mostWeight) {
		return refuse(stream.StageLearn, stream.ReasonLimit, "weight", fmt.Errorf("%g is outside [%g,%g]", w, leastWeight, mostWeight))
	}
	if n := float64(x.Represents); !(n >= 0) || math.IsInf(n, 1) {
		return refuse(stream.StageLearn, stream.ReasonLimit, "represents", fmt.Errorf("%g, want a finite number above 0, or 0 for 1", n))
	}
	if !e.isLabel(it) {
		if err := e.admission.accept(&x.X); err != nil {
			return refuse(stream.StageLearn, stream.ReasonLimit, "x", fmt.Errorf("%w, learner %s", err, e.cfg.Spec.Name))
		}
	}
	e.classes.resolve(x)
	return nil
}

// Bounds on the weights that learners accept. With a wider range, sums would lose
// the small weights to rounding.
const (
	leastWeight = 1e-6
	mostWeight  = 1e6
)

var errNotFinite = errors.New("not a finite number")

// tooLarge returns the position of the first value that is not finite or too large
// for learners, and an error that says which. With hashing, all values may add up
// in one bucket, so their sum is limited too.
func (e *Engine) tooLarge(val []float32) (int, error) {
	if e.cfg.HashDim == 0 && below(val, algos.TooLarge) {
		return 0, nil
	}
	sum := 0.0
	for i, v := range val {
		if v-v != 0 {
			return i, errNotFinite
		}
		a := math.Abs(float64(v))
		if sum += a; float32(a) >= algos.TooLarge || e.cfg.HashDim > 0 && float32(sum) >= algos.TooLarge {
			return i, fmt.Errorf("%g is too large, the limit is %g", v, algos.TooLarge)
		}
	}
	return 0, nil
}

// below reports whether |v| < limit for all values, which is false for NaN and
// infinity. The limit is a float32, as in learners: algos.TooLarge rounded to
// float32 is slightly smaller than the constant.
func below(val []float32, limit float32) bool {
	for _, v := range val {
		if !(v < limit && v > -limit) {
			return false
		}
	}
	return true
}

// accept records an example, or returns an error if it exceeds the learner's limits.
func (g *admission) accept(x *stream.Vec) error {
	dim := len(x.Val)
	if n := len(x.Idx); x.Idx != nil { // not Dim, which would copy x
		if dim = 0; n > 0 {
			dim = int(x.Idx[n-1]) + 1
		}
	}
	if most := g.limits.Features; most > 0 && dim > most {
		return fmt.Errorf("feature %d is beyond the limit of %d (option %s)", dim, most, g.limits.Option)
	}
	if most := g.limits.Distinct; most > 0 {
		if n := g.distinct(*x); n > most {
			return fmt.Errorf("%d features in all are more than the limit of %d (option %s)", n, most, g.limits.Option)
		}
		g.record(*x)
	}
	if x.Idx == nil {
		g.dim = dim
	}
	g.index = max(g.index, dim)
	return nil
}

// distinct returns how many distinct features there are once x is counted. All
// features of a dense example count, 0 or not.
func (g *admission) distinct(x stream.Vec) int {
	if !x.Sparse() {
		n := len(x.Val)
		for j := range g.seen {
			if int(j) >= len(x.Val) {
				n++
			}
		}
		return n
	}
	n := g.dim + len(g.seen)
	for k, j := range x.Idx {
		if _, known := g.seen[j]; x.Val[k] != 0 && int(j) >= g.dim && !known {
			n++
		}
	}
	return n
}

// record adds the features of x to those seen.
func (g *admission) record(x stream.Vec) {
	if !x.Sparse() {
		for j := range g.seen {
			if int(j) < len(x.Val) {
				delete(g.seen, j)
			}
		}
		return
	}
	for k, j := range x.Idx {
		if x.Val[k] != 0 && int(j) >= g.dim {
			if g.seen == nil {
				g.seen = map[int32]struct{}{}
			}
			g.seen[j] = struct{}{}
		}
	}
}

// fields describes seen. It is in a state only when it is not empty, so that older
// states still load.
func (g *admission) fields(f *state.Fields) {
	if g.limits.Distinct == 0 || !f.Decoding() && len(g.seen) == 0 || f.Decoding() && !f.Next("features_seen") {
		return
	}
	var list []int32
	for j := range g.seen {
		list = append(list, j)
	}
	slices.Sort(list)
	f.Int32s("features_seen", &list)
	if f.Decoding() {
		g.seen = map[int32]struct{}{}
		for _, j := range list {
			g.seen[j] = struct{}{}
		}
	}
}
