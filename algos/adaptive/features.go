package adaptive

import (
	"context"
	"maps"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/tsgs3vm"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// randomFeatures is learner dsg: a kernel SVM in random features, trained on a uniform sample
// of all examples so far. It does not follow drift, and that makes it useful: its function is
// still good long after it was published. It starts early, and once more when the scale of
// the features is known better. It does not take wide examples.
type randomFeatures struct {
	*panel
	l         algos.Learner // nil: not started
	transform *prep.Transform
	laplacian bool              // the kernel; otherwise RBF
	begun     int               // number of examples it started with
	pending   []*stream.Example // since the last step

	scores []float64 // by example of the batch
	vecs   []stream.Vec
}

func (e *randomFeatures) begin(batch []input, fresh bool) {
	e.scores = e.scores[:0]
	if e.l == nil || !fresh {
		return
	}
	e.vecs = e.vecs[:0]
	for _, in := range batch {
		e.vecs = append(e.vecs, e.transform.Apply(in.x.X))
	}
	e.scores = append(e.scores, make([]float64, len(batch))...)
	e.l.Model().Decisions(e.scores, e.vecs)
}

func (e *randomFeatures) predict(in *input) score {
	if len(e.scores) == 0 {
		return score{}
	}
	return score{e.scores[in.i], true}
}

func (e *randomFeatures) learn(in *input, _ score) error {
	if e.l != nil {
		e.pending = append(e.pending, in.x)
	}
	return nil
}

// ends reports whether the expert is not wanted: it then ends at the next tick.
func (e *randomFeatures) ends() bool { return e.inputs.wide || e.opt.Panel == "small" }

// untilDue returns how many examples may follow before it starts or restarts.
func (e *randomFeatures) untilDue(seen uint64) uint64 {
	for _, n := range e.sizes.features {
		if e.begun < n && !e.ends() {
			due := (max(uint64(n), seen+1) + tick - 1) / tick * tick
			return due - seen
		}
	}
	return maxBatch
}

func (e *randomFeatures) step(ctx context.Context, seen uint64) error {
	if e.ends() {
		e.l, e.pending = nil, nil
		return nil
	}
	for _, n := range e.sizes.features {
		if e.begun < n && seen >= uint64(n) {
			return e.start(ctx, n)
		}
	}
	if e.l == nil {
		return nil
	}
	err := e.feed(ctx, e.pending)
	clear(e.pending)
	e.pending = e.pending[:0]
	return err
}

// start makes a new learner and trains it on the n newest examples.
func (e *randomFeatures) start(ctx context.Context, n int) error {
	xs := e.detector.Newest(n)
	t, err := prep.Fit(xs, prep.Options{Scale: prep.Auto, Scaled: e.env.Scaled})
	if err != nil {
		return err
	}
	by := newScaling(xs, nil, t, target{}, e.env.Seed).weighted(xs, target{}, e.env.Seed).orLaplacian(target{}, e.env.Seed)
	e.transform, e.laplacian, e.begun, e.pending = by.transform, by.choice.gamma < 0, n, nil
	if err := e.fresh(); err != nil {
		return err
	}
	return e.feed(ctx, xs)
}

func (e *randomFeatures) fresh() (err error) {
	o := maps.Clone(e.sizes.dsg)
	if e.laplacian {
		o["kernel"] = "laplacian"
	}
	e.l, err = tsgs3vm.DSG.New(algos.Env{Seed: e.env.Seed, Log: e.env.Log}, o)
	return err
}

func (e *randomFeatures) feed(ctx context.Context, xs []*stream.Example) error {
	for _, x := range xs {
		c := *x
		c.X = e.transform.Apply(x.X)
		if _, err := algos.Feed(ctx, e.l, &c); err != nil {
			return err
		}
	}
	return nil
}

func (e *randomFeatures) function() function {
	if e.l == nil {
		return nil
	}
	return &kernelFunction{e.transform, e.l.Model()}
}

func (e *randomFeatures) fields(f *state.Fields) {
	there := e.l != nil
	f.Bool("there", &there)
	f.Int("begun", &e.begun)
	if f.Decoding() {
		e.l, e.pending = nil, nil
	}
	if !there || f.Err() != nil {
		return
	}
	f.Bool("laplacian", &e.laplacian)
	if f.Decoding() {
		e.transform = new(prep.Transform)
		f.Fail("learner", e.fresh())
	}
	f.Group("transform", e.transform.Fields)
	if f.Err() == nil {
		f.Nested("learner", e.l.AppendBinary, e.l.UnmarshalBinary)
	}
	columns.Examples(f, "pending", &e.pending)
}
