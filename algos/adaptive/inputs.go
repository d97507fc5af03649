package adaptive

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// narrow is the largest number of features for which all experts are dense. With more,
// features are not centred, only divided by their size, and there are no random
// features.
const narrow = 512

// widest limits the features of the linear experts, to bound their memory. Kernel learners
// use all features.
const widest = 1 << 20

// clip bounds the standardised inputs of one-pass experts.
const clip = 5

// inputs standardises examples for the one-pass experts: it maps features with heavy tails by
// asinh, subtracts each feature's mean so far and divides by its standard deviation so far.
// Features of wide examples are divided by their largest size so far instead, so that zeros
// stay zeros.
type inputs struct {
	wide     bool
	n        float64
	mean, m2 []float64    // of each feature: mean, and sum of squared deviations from it
	most     []float64    // wide: the largest |value| of each feature
	asinh    []prep.Asinh // maps of the first features, before anything else; may be nil
	scaled   []bool       // algos.Env.Scaled; nil: sparse features, in the learner's state

	scratch []float32
}

// known returns x without the features from widest on.
func known(x stream.Vec) stream.Vec {
	if x.Idx == nil {
		return stream.Vec{Val: x.Val[:min(len(x.Val), widest)]}
	}
	n, _ := slices.BinarySearch(x.Idx, widest)
	return stream.Vec{Idx: x.Idx[:n], Val: x.Val[:n]}
}

// apply returns x standardised.
func (in *inputs) apply(x stream.Vec) stream.Vec { return in.applyIn(nil, x) }

// applyIn is apply; a dense result uses row if that is large enough.
func (in *inputs) applyIn(row []float32, x stream.Vec) stream.Vec {
	if in.wide {
		x = known(x)
		z := stream.Vec{Idx: x.Idx, Val: make([]float32, len(x.Val))}
		for k, v := range x.Val {
			j := k
			if x.Idx != nil {
				j = int(x.Idx[k])
			}
			if j < len(in.most) && in.most[j] > 0 {
				z.Val[k] = float32(min(max(in.mapped(j, v)/in.most[j], -clip), clip))
			}
		}
		return z
	}
	z := stream.Vec{Val: in.row(row, x)}
	for j, m := range in.mean {
		v := in.mapped(j, z.Val[j])
		z.Val[j] = 0
		if sd := in.deviation(j); sd > 0 {
			z.Val[j] = float32(min(max((v-m)/sd, -clip), clip))
		}
	}
	return z
}

// input returns the forms of x; dense ones use room if that is large enough.
func (in *inputs) input(room []float32, x stream.Vec) input {
	z := in.applyIn(room, x)
	return input{z: z, row: in.gradientRow(z, x)}
}

// next returns the forms of x and updates the statistics with x. A wide example's new features, such
// as words, have no size before: they are in learned only.
func (in *inputs) next(room []float32, x stream.Vec) input {
	out := in.input(room, x)
	if in.observe(x) {
		z := in.apply(x)
		out.learned = &[2]stream.Vec{z, unitLength(z)}
	}
	return out
}

// gradientRow returns the input of gradient experts, given z, that of the others for x. Wide
// examples have length 1. Sparse features, and those whose scale has a meaning, such as those of
// categories, are as in x, but for the clipping: the experts learn faster where most features
// are 0.
func (in *inputs) gradientRow(z, x stream.Vec) stream.Vec {
	if in.wide {
		return unitLength(z)
	}
	if !slices.Contains(in.scaled, true) {
		return z
	}
	raw := in.row(nil, x)
	row := stream.Vec{Idx: make([]int32, 0, len(raw)), Val: make([]float32, 0, len(raw))}
	for j, v := range z.Val {
		if in.isScaled(j) {
			if raw[j] == 0 {
				continue
			}
			v = float32(float64(float64(v)*in.deviation(j)) + in.mean[j])
		}
		row.Idx, row.Val = append(row.Idx, int32(j)), append(row.Val, v)
	}
	return row
}

func (in *inputs) isScaled(j int) bool { return j < len(in.scaled) && in.scaled[j] }

// deviation returns the standard deviation of a feature.
func (in *inputs) deviation(j int) float64 { return math.Sqrt(in.m2[j] / max(in.n, 1)) }

// ofZ returns f, a function of gradientRow, as a function of z.
func (in *inputs) ofZ(f *linearFunction) *linearFunction {
	if f.form != onRow || in.wide || !slices.Contains(in.scaled, true) {
		return f
	}
	out := &linearFunction{onZ, slices.Clone(f.w), f.b}
	for j, v := range f.w {
		if j < len(in.mean) && in.isScaled(j) {
			out.w[j] = v * in.deviation(j)
			out.b += float64(v * in.mean[j])
		}
	}
	return out
}

// row returns the features of x that have a mean, dense.
func (in *inputs) row(row []float32, x stream.Vec) []float32 {
	row = room(row, len(in.mean))
	n := 0
	if x.Idx == nil {
		n = copy(row, x.Val)
	}
	clear(row[n:])
	for k, j := range x.Idx {
		if int(j) >= len(row) {
			break
		}
		row[j] = x.Val[k]
	}
	return row
}

// observe updates the statistics with x. It reports whether x is wide and has features that were 0 in
// all examples before.
func (in *inputs) observe(x stream.Vec) (fresh bool) {
	dim := x.Dim()
	if in.wide {
		x = known(x)
		in.most = linear.Grow(in.most, x.Dim())
		for k, v := range x.Val {
			j := k
			if x.Idx != nil {
				j = int(x.Idx[k])
			}
			size := math.Abs(in.mapped(j, v))
			fresh = fresh || in.most[j] == 0 && size > 0
			in.most[j] = max(in.most[j], size)
		}
		return fresh
	}
	for len(in.mean) < dim { // the feature was 0 in all examples before
		in.mean, in.m2 = append(in.mean, 0), append(in.m2, 0)
	}
	in.n++
	in.scratch = in.row(in.scratch, x)
	for j, m := range in.mean {
		v := in.mapped(j, in.scratch[j])
		d := v - m
		in.mean[j] = m + d/in.n
		in.m2[j] += float64(d * (v - in.mean[j]))
	}
	return false
}

// mapped returns value v of feature j, mapped by asinh if the feature has heavy tails.
func (in *inputs) mapped(j int, v float32) float64 {
	if j < len(in.asinh) {
		return in.asinh[j].Of(float64(v))
	}
	return float64(v)
}

// fitAsinh looks for features with heavy tails in xs, all examples so far, and reports whether
// there are any. Of wide examples, only features that are known to be numbers can have them.
func (in *inputs) fitAsinh(xs []*stream.Example, scaled []bool) bool {
	if in.wide && !slices.Contains(scaled, true) {
		return false
	}
	list := prep.FitAsinh(xs, scaled, !in.wide)
	if list == nil {
		return false
	}
	*in = inputs{wide: in.wide, asinh: list[:min(len(list), widest)], scaled: in.scaled, scratch: in.scratch}
	for _, x := range xs {
		in.observe(x.X)
	}
	return true
}

// findSparse takes features that are 0 in most of xs, all examples so far, for scaled ones, and
// reports whether they are others than before.
func (in *inputs) findSparse(xs []*stream.Example) (changed bool) {
	before, zeros := in.scaled, make([]int, len(in.mean))
	in.scaled = nil
	for _, x := range xs {
		in.scratch = in.row(in.scratch, x.X)
		for j, v := range in.scratch {
			if v == 0 {
				zeros[j]++
			}
		}
	}
	for j, n := range zeros {
		if 2*n > len(xs) {
			in.scaled = append(in.scaled, make([]bool, j+1-len(in.scaled))...)
			in.scaled[j] = true
		}
	}
	return !slices.Equal(in.scaled, before)
}

// nextFit returns the number of examples at which fitInputs is due next, 0 if it is not.
func (l *Learner) nextFit(seen uint64) uint64 {
	for _, n := range []int{l.sizes.first, l.sizes.features[0]} {
		if seen < uint64(n) {
			return uint64(n)
		}
	}
	return 0
}

// fitInputs fits asinh and splines to the first examples, and finds sparse features. Neighbours
// move to their new places; the experts on splines learn from these examples again, and those on
// rows if these have changed; the linear experts continue with their weights.
func (l *Learner) fitInputs() error {
	xs := l.detector.Newest(int(l.detector.Seen()))
	if l.inputs.fitAsinh(xs, l.env.Scaled) {
		l.moveNeighbours(xs)
	}
	rows := !l.inputs.wide && l.env.Scaled == nil && l.inputs.findSparse(xs)
	l.splines = fitSplines(&l.inputs, xs, l.env.Scaled)
	again := func(f form) bool { return f == onSplines && l.splines != nil || f == onRow && rows }
	for _, e := range l.experts {
		var err error
		switch x := e.expert.(type) {
		case *gradient:
			if again(x.form) {
				x.l, x.n = newGradient(l.env, &l.inputs, x.form, x.rate).l, 0
				err = l.learnAgain(x, xs)
			}
		case *fitted:
			if again(x.form) && x.l != nil {
				err = x.start(xs)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// learnAgain lets expert e learn from xs outside a batch.
func (l *Learner) learnAgain(e expert, xs []*stream.Example) error {
	for _, x := range xs {
		in := input{x: x}
		l.prepare(&in)
		if err := e.learn(&in, score{}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Learner) moveNeighbours(xs []*stream.Example) {
	for _, e := range l.experts {
		if near, ok := e.expert.(*nearExpert); ok && !near.second {
			*near.neighbours = neighbours{number: near.number, added: near.added}
			for _, x := range xs {
				near.add(l.inputs.apply(x.X), x.Y)
			}
		}
	}
}

// widen switches to wide examples and forgets all statistics.
func (in *inputs) widen() { *in = inputs{wide: true} }

func (in *inputs) fields(f *state.Fields) {
	f.Bool("wide", &in.wide)
	f.Float64("count", &in.n)
	f.Float64s("mean", &in.mean)
	f.Float64s("m2", &in.m2)
	f.Float64s("most", &in.most)
	prep.AsinhFields(f, &in.asinh, max(len(in.mean), len(in.most)), !in.wide)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(in.mean) != len(in.m2) || len(in.mean) > narrow || len(in.most) > widest || in.wide && len(in.mean) > 0 || !in.wide && len(in.most) > 0 || !(in.n >= 0 && in.n < math.Inf(1)) {
		f.Fail("mean", fmt.Errorf("%d means, %d sums, %d sizes, of %g examples", len(in.mean), len(in.m2), len(in.most), in.n))
		return
	}
	for j := range in.mean {
		if m, s := in.mean[j], in.m2[j]; m-m != 0 || !(s >= 0 && s < math.Inf(1)) {
			f.Fail("mean", fmt.Errorf("feature %d: %g, %g", j, m, s))
			return
		}
	}
	for j, v := range in.most {
		if !(v >= 0 && v < math.Inf(1)) {
			f.Fail("most", fmt.Errorf("feature %d: %g", j, v))
			return
		}
	}
}

// cosines is the number of random features.
const cosines = 256

// fourier maps standardised inputs to random Fourier features for an RBF kernel with γ = 4/d
// (Rahimi and Recht, NIPS 2007), with the inputs themselves in front.
// The frequencies are drawn once, from the seed and the number of features.
type fourier struct {
	dim   int // number of input features used; 0: none yet
	freq  *vec.Panels
	phase []float32
}

func newFourier(dim int, seed uint64) *fourier {
	w := &fourier{dim: dim, freq: vec.NewPanels(dim)}
	r := rng.New(seed, "adaptive/waves")
	// Frequencies and phases are in turns; see vec.Cos.
	scale := math.Sqrt(2*4/float64(dim)) / (2 * math.Pi)
	row := make([]float32, dim)
	for range cosines {
		for j := range row {
			row[j] = float32(scale * r.NormFloat64())
		}
		w.freq.Append(row)
		w.phase = append(w.phase, float32(r.Float64()))
	}
	return w
}

// of returns the features of standardised inputs z; z is dense.
func (w *fourier) of(z stream.Vec) stream.Vec { return w.ofAll(nil, z)[0] }

// ofAll is of for several inputs; it uses out if that is large enough.
func (w *fourier) ofAll(out []float32, zs ...stream.Vec) []stream.Vec {
	size := cosines + w.dim
	x, phis := make([]float32, len(zs)*w.dim), make([]stream.Vec, len(zs))
	for i, z := range zs {
		copy(x[i*w.dim:(i+1)*w.dim], z.Val)
	}
	out = room(out, len(zs)*size)
	vec.Cos(out, size, x, len(zs), w.freq, w.phase, 0, cosines)
	const unit = 0.08838834764831845 // √(2/256)
	root := math.Sqrt(float64(w.dim))
	for i := range phis {
		phi := out[i*size : (i+1)*size]
		for k := range phi[:cosines] {
			phi[k] *= unit
		}
		for j, v := range x[i*w.dim : (i+1)*w.dim] {
			phi[cosines+j] = float32(float64(v) / root)
		}
		phis[i].Val = phi
	}
	return phis
}

// features returns the number of input features, 0 for a nil receiver.
func (w *fourier) features() int {
	if w == nil {
		return 0
	}
	return w.dim
}

// restoredFourier returns the random features for dim input features, nil for 0.
func restoredFourier(f *state.Fields, dim int, in *inputs, seed uint64) *fourier {
	switch {
	case f.Err() != nil || dim == 0:
		return nil
	case dim < 0 || dim > len(in.mean):
		f.Fail("random_features", fmt.Errorf("of %d features", dim))
		return nil
	}
	return newFourier(dim, seed)
}
