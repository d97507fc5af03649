// Package prep scales and hashes features. A Transform is fitted to the first
// examples of a stream and does not change afterwards. It is part of checkpoints and
// models, and returns the same bits wherever it is applied. One scale, Running,
// continues to follow the stream.
package prep

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// The values of Options.Scale.
const (
	None     = "none"     // x
	Unit     = "unit"     // x / ‖x‖, example by example
	Common   = "common"   // x / the largest |value| of all features, clipped at ±2
	MinMax   = "minmax"   // each feature from its range to [0,1], clipped one range beyond
	Standard = "standard" // each feature to mean 0 and standard deviation 1, clipped at ±6
	Running  = "running"  // each feature minus its recent mean, see Next, clipped at ±6
	Auto     = "auto"     // one of the others, see Fit
)

// Scales lists the values of Options.Scale.
func Scales() []string { return []string{None, Unit, Common, MinMax, Standard, Running, Auto} }

const (
	// DenseLimit is the number of features up to which sparse examples may be made
	// dense in order to shift their features.
	DenseLimit = 1024
	// leastDensity is the share of nonzero values from which sparse examples are made
	// dense. Below it, filling in the shifted zeros costs too much.
	leastDensity = 0.1
	// scaledLimit is the largest |value| of data that Auto considers already scaled:
	// [-1,1], [0,1], binary, tf-idf, and ranges that a test set exceeds by a few per
	// cent, but not small integers.
	scaledLimit = 2
	// bound limits scaled values, so that their squared distances are finite in
	// float32 and no finite value becomes infinite.
	bound = 1e15
)

// Options are the settings of Fit.
type Options struct {
	// Scale is one of Scales; empty means Auto.
	Scale string
	// HashDim, if positive, is the number of features into which all features
	// are hashed, before scaling (Weinberger et al., "Feature hashing for large
	// scale multitask learning", ICML 2009, with signs). It bounds an open
	// feature space.
	HashDim int
	// Span is the approximate number of examples in the mean of Running, at least 1;
	// 0 means DefaultSpan.
	Span int
	// Scaled says by feature index whether the scale of a feature is meaningful, like
	// the scale of a one-hot category: standard and minmax leave such features
	// unchanged, and Auto ignores them. It does not apply to hashed features.
	Scaled []bool
}

// Transform is a fitted preprocessing. It is safe for concurrent use, and immutable
// except for Next. The zero value changes nothing.
type Transform struct {
	hashDim int
	scale   string // never Auto; "" means None
	auto    bool   // Auto chose scale
	// dense: features are shifted, and the result is dense whatever the input (see
	// shifted). Otherwise shift is nil and the result is as sparse as the input.
	dense bool
	// Feature idx[k] (or k, if dense) becomes (asinh[k](v) − shift[k])·factor[k]. Factor 0
	// marks a feature that was constant in the warm-up.
	idx           []int32
	shift, factor []float64
	asinh         []Asinh // nil if no feature has heavy tails
	common        float64 // the factor of Common
	running       running
	low, high     float64      // bounds of scaled values
	arena         stream.Arena // memory for Next
	clipped       Clipped      // counts from Next
	zero          []float32    // dense: the transform of zeros; nil if it changes or is clipped
}

// Fit fits the preprocessing to examples, usually the first of a stream, without
// changing them. It looks only at features, never at labels.
//
// Auto chooses none if no |value| exceeds 2, since such data are already scaled, binary,
// or tf-idf weights; common if the features share a range, as grey values do; standard
// if features are few (up to DenseLimit, or dense) and not mostly zero; and minmax
// otherwise. If some features have a meaningful scale (Scaled), it chooses none or
// standard, so that the other features get a comparable weight. Without examples, Auto
// and all scales that need statistics become none.
//
// Where Auto chooses standard, features with heavy tails go through asinh first, see Asinh.
// Where it chooses none and examples are dense, or Scaled tells numbers apart, such features
// keep their range; the scale is then standard, and leaves all others unchanged.
//
// Sparse examples with at most DenseLimit features, at least a tenth of them
// nonzero, are made dense by minmax and standard, which shift features. In other
// sparse examples zeros stay zeros: standard divides by the standard deviation, or a
// third of the mean if that is more, without centring; minmax by the largest |value|.
//
// Scaled values are clipped: at ±6, with minmax to [−1,2] (±2 if zeros stay zeros),
// with common at ±2. Otherwise a feature with a trend would leave the region that a
// kernel knows for good, and a single extreme value would outweigh all others.
//
// A feature that was constant in the warm-up (or absent from it) has no known
// scale: it becomes its difference from this constant (or from 0), limited to [-1,1].
func Fit(examples []*stream.Example, o Options) (*Transform, error) {
	if o.Scale == "" {
		o.Scale = Auto
	}
	if !slices.Contains(Scales(), o.Scale) {
		return nil, fmt.Errorf("scale %q is not one of %q", o.Scale, Scales())
	}
	if o.HashDim < 0 || o.HashDim > math.MaxInt32 {
		return nil, fmt.Errorf("hash dimension %d is outside [0,%d]", o.HashDim, math.MaxInt32)
	}
	if o.Span < 0 {
		return nil, fmt.Errorf("span %d is negative", o.Span)
	}
	t := &Transform{hashDim: o.HashDim, scale: o.Scale, auto: o.Scale == Auto, low: -bound, high: bound}
	for _, e := range examples {
		if k := e.X.CheckFinite(); k >= 0 {
			return nil, fmt.Errorf("example %d: feature %d is not finite", e.Seq, index(e.X, k))
		}
	}
	if o.Scale == None || o.Scale == Unit {
		return t, nil
	}
	if o.Scale == Running {
		t.dense = true
		t.running.span = float64(cmp.Or(o.Span, DefaultSpan))
		t.clip()
		return t, nil
	}
	if len(examples) == 0 {
		t.scale = None
		return t, nil
	}
	s := collect(examples, func(x stream.Vec) stream.Vec { return t.hash(x, nil) })
	var scaled []bool
	if o.HashDim == 0 {
		scaled = o.Scaled
	}
	if t.auto {
		t.scale = s.but(scaled).choose()
		if t.scale != None && slices.Contains(scaled, true) {
			t.scale = Standard
		}
	}
	tails := t.auto && s.asinh(t.scale, scaled)
	keep := tails && t.scale == None
	if keep { // other features remain as they are
		t.scale, scaled = Standard, s.withoutAsinh()
	}
	switch t.scale {
	case Common:
		t.common = 1
		if m := s.largest(); m > 0 {
			t.common, t.low, t.high = 1/m, -2, 2
		}
	case MinMax, Standard:
		t.fit(s, scaled)
	}
	if tails {
		t.mapTails(s, keep)
	}
	t.clip()
	t.prepare()
	return t, nil
}

// prepare computes zero.
func (t *Transform) prepare() {
	t.zero = nil
	if !t.dense || t.scale == Running {
		return
	}
	var n Clipped
	if y := t.shifted(stream.Vec{Idx: []int32{}}, &n); n.Values == 0 {
		t.zero = y.Val
	}
}

// clip sets the bounds for scales with a factor per feature.
func (t *Transform) clip() {
	switch t.scale {
	case MinMax:
		t.low, t.high = -1, 2
		if !t.dense { // then fitted values are in [-1,1]
			t.low = -2
		}
	case Standard, Running:
		t.low, t.high = -6, 6
	}
}

// fit computes shift and factor.
func (t *Transform) fit(s *stats, scaled []bool) {
	t.dense = s.densify()
	n := len(s.features)
	if t.dense {
		n = s.dim
		t.shift = make([]float64, n)
	} else {
		t.idx = make([]int32, n)
	}
	t.factor = make([]float64, n)
	for k := range s.features {
		f := &s.features[k]
		i := k
		if t.dense {
			i = int(f.idx)
		} else {
			t.idx[k] = f.idx
		}
		if j := int(f.idx); j < len(scaled) && scaled[j] {
			t.factor[i] = 1
			continue
		}
		lo, hi := f.span(s.n)
		shift, width := lo, hi-lo
		switch {
		case t.scale == Standard:
			shift = f.mean
			width = math.Sqrt(f.m2 / float64(s.n))
			if !t.dense { // so that values that are not centred are not clipped
				width = max(width, math.Abs(f.mean)/3)
			}
		case !t.dense:
			width = max(-lo, hi)
		}
		if lo < hi {
			t.factor[i] = 1 / width
		} else {
			shift = lo
		}
		if t.dense {
			t.shift[i] = shift
		}
	}
}

// Apply returns the preprocessed x. It does not change x. The result shares x's memory
// if there is nothing to do, and otherwise has its own.
func (t *Transform) Apply(x stream.Vec) stream.Vec { return t.scaled(t.hash(x, nil), nil) }

// scaled is Apply after hashing. It counts clipped values in n, which may be nil.
func (t *Transform) scaled(x stream.Vec, n *Clipped) stream.Vec {
	switch t.scale {
	case Unit:
		var s float64
		for _, v := range x.Val {
			s += float64(float64(v) * float64(v))
		}
		if s == 0 {
			return x
		}
		return t.times(x, 1/math.Sqrt(s), n)
	case Common:
		return t.times(x, t.common, n)
	case MinMax, Standard, Running:
		if t.dense {
			return t.shifted(x, n)
		}
		return t.stretched(x, n)
	}
	return x
}

// times returns c·x.
func (t *Transform) times(x stream.Vec, c float64, n *Clipped) stream.Vec {
	y := stream.Vec{Idx: x.Idx, Val: make([]float32, len(x.Val))}
	for k, v := range x.Val {
		y.Val[k] = t.limit(index(x, k), float64(v)*c, n)
	}
	return y
}

// limit rounds v, a value of feature j, to float32 within the bounds.
func (t *Transform) limit(j int, v float64, n *Clipped) float32 {
	if v < t.low || v > t.high {
		n.add(j)
		v = min(max(v, t.low), t.high)
	}
	return float32(v)
}

// one returns (a(v) − shift)·factor of feature j, or the limited difference if its
// scale is unknown.
func (t *Transform) one(j int, v float32, a Asinh, shift, factor float64, n *Clipped) float32 {
	d := a.Of(float64(v)) - shift
	if factor == 0 {
		return float32(min(max(d, -1), 1))
	}
	return t.limit(j, d*factor, n)
}

// shifted returns a vector with every feature of the warm-up. It is dense unless x has
// features beyond DenseLimit that were absent from the warm-up.
func (t *Transform) shifted(x stream.Vec, clipped *Clipped) stream.Vec {
	n := len(t.factor)
	val := make([]float32, n, max(n, min(x.Dim(), DenseLimit)))
	next := 0 // first feature not yet written
	if t.zero != nil {
		next = copy(val, t.zero)
	}
	zeros := func(to int) {
		for ; next < to; next++ {
			val[next] = t.one(next, 0, t.asinhOf(next), t.shift[next], t.factor[next], clipped)
		}
	}
	k := 0
	for ; k < len(x.Val); k++ {
		j := index(x, k)
		if j >= n {
			break
		}
		if t.zero != nil && math.Float32bits(x.Val[k]) == 0 {
			continue
		}
		zeros(j)
		val[j] = t.one(j, x.Val[k], t.asinhOf(j), t.shift[j], t.factor[j], clipped)
		next = max(next, j+1)
	}
	zeros(n)
	y := stream.Vec{Val: val}
	if x.Idx != nil && x.Dim() > max(n, DenseLimit) {
		y.Idx = make([]int32, n, n+len(x.Val)-k)
		for j := range y.Idx {
			y.Idx[j] = int32(j)
		}
	}
	for ; k < len(x.Val); k++ {
		j := index(x, k)
		if y.Idx != nil {
			y.Idx = append(y.Idx, int32(j))
		} else if gap := j - len(y.Val); gap > 0 {
			y.Val = append(y.Val, make([]float32, gap)...)
		}
		y.Val = append(y.Val, t.one(j, x.Val[k], Asinh{}, 0, 0, nil))
	}
	return y
}

// stretched returns a vector of the same form as x, in which zeros stay zeros.
func (t *Transform) stretched(x stream.Vec, n *Clipped) stream.Vec {
	y := stream.Vec{Idx: x.Idx, Val: make([]float32, len(x.Val))}
	from := 0
	for k, v := range x.Val {
		j := int32(k)
		if x.Idx != nil {
			j = x.Idx[k]
		}
		factor, a := 0.0, Asinh{}
		at, ok := slices.BinarySearch(t.idx[from:], j)
		if from += at; ok {
			factor, a = t.factor[from], t.asinhOf(from)
		}
		y.Val[k] = t.one(int(j), v, a, 0, factor, n)
	}
	return y
}

// hash returns x with its features hashed, if so configured: sparse, in memory from
// a, which may be nil.
func (t *Transform) hash(x stream.Vec, a *stream.Arena) stream.Vec {
	if t.hashDim == 0 {
		return x
	}
	mask := uint64(0)
	if n := uint64(t.hashDim); n&(n-1) == 0 {
		mask = n - 1
	}
	// Each feature becomes a number consisting of slot, position in x, and sign,
	// from the top bit down. Sorting the numbers sorts by slot, and within a slot
	// by position in x.
	var room [64]uint64 // enough for most examples, without an allocation
	hs := room[:0]
	if len(x.Val) > len(room) {
		hs = make([]uint64, 0, len(x.Val))
	}
	var key [4]byte
	for k, v := range x.Val {
		if v == 0 {
			continue
		}
		j := uint32(k)
		if x.Idx != nil {
			j = uint32(x.Idx[k])
		}
		binary.LittleEndian.PutUint32(key[:], j)
		h := xxhash.Sum64(key[:])
		// The top bit is the sign, the low bits are the slot.
		slot := h << 1 >> 1
		if mask != 0 {
			slot &= mask // the remainder, without a division
		} else {
			slot %= uint64(t.hashDim)
		}
		hs = append(hs, slot<<33|uint64(k)<<1|h>>63)
	}
	if len(hs) <= 24 { // the call of the library would cost as much as sorting
		for i := 1; i < len(hs); i++ {
			e, k := hs[i], i
			for ; k > 0 && hs[k-1] > e; k-- {
				hs[k] = hs[k-1]
			}
			hs[k] = e
		}
	} else {
		slices.Sort(hs)
	}
	y := stream.Vec{Idx: a.Idx(len(hs)), Val: a.Val(len(hs))}
	for i := 0; i < len(hs); {
		slot, sum := hs[i]>>33, 0.0
		for ; i < len(hs) && hs[i]>>33 == slot; i++ {
			v := float64(x.Val[uint32(hs[i]>>1)])
			if hs[i]&1 != 0 {
				v = -v
			}
			sum += v
		}
		y.Idx = append(y.Idx, int32(slot))
		y.Val = append(y.Val, float32(min(max(sum, -math.MaxFloat32), math.MaxFloat32)))
	}
	return a.Take(y)
}

// Scale returns the scale in use; never Auto.
func (t *Transform) Scale() string {
	if t.scale == "" {
		return None
	}
	return t.scale
}

// HashDim returns the number of slots into which features are hashed, or 0.
func (t *Transform) HashDim() int { return t.hashDim }

// Identity reports whether Apply returns every vector unchanged.
func (t *Transform) Identity() bool { return t.hashDim == 0 && t.Scale() == None }

// String describes the preprocessing in a few words.
func (t *Transform) String() string {
	s := t.Scale()
	switch {
	case s == Running:
		s += fmt.Sprintf(" over %g examples, %d features", t.running.span, len(t.factor))
	case t.dense:
		s += fmt.Sprintf(" over %d features", len(t.factor))
	case s == MinMax || s == Standard:
		s += fmt.Sprintf(" over %d features, zeros kept", len(t.factor))
	case s == Common:
		s += fmt.Sprintf(" %.4g", t.common)
	}
	mapped := 0
	for _, a := range t.asinh {
		if a.Size > 0 {
			mapped++
		}
	}
	if mapped > 0 {
		s += fmt.Sprintf(", %d by asinh", mapped)
	}
	if t.auto {
		s += " (auto)"
	}
	if t.hashDim > 0 {
		s = fmt.Sprintf("hashed to %d features, %s", t.hashDim, s)
	}
	return s
}

// Fields describes the transform. When decoding, it rejects anything that Fit cannot
// have made.
func (t *Transform) Fields(f *state.Fields) {
	f.Int("hash_dim", &t.hashDim)
	f.String("scale", &t.scale)
	f.Bool("auto", &t.auto)
	f.Bool("dense", &t.dense)
	f.Int32s("index", &t.idx)
	f.Float64s("shift", &t.shift)
	f.Float64s("factor", &t.factor)
	f.Float64("common", &t.common)
	if t.scale == Running { // other scales keep the encoding from before Running existed
		t.running.fields(f)
	}
	t.clipFields(f)
	AsinhFields(f, &t.asinh, len(t.factor), t.dense)
	if f.Decoding() && f.Err() == nil {
		f.Fail("scale", t.check())
	}
	if f.Decoding() && f.Err() == nil {
		t.prepare()
	}
}

func (t *Transform) check() error {
	if t.hashDim < 0 || t.hashDim > math.MaxInt32 {
		return fmt.Errorf("hash dimension %d", t.hashDim)
	}
	if t.scale != "" && (t.scale == Auto || !slices.Contains(Scales(), t.scale)) {
		return fmt.Errorf("unknown scale %q", t.scale)
	}
	if t.dense && (len(t.shift) != len(t.factor) || len(t.idx) != 0) || !t.dense && (len(t.shift) != 0 || len(t.idx) != len(t.factor)) {
		return fmt.Errorf("%d indices, %d shifts, %d factors", len(t.idx), len(t.shift), len(t.factor))
	}
	if !(-bound <= t.low && t.low < t.high && t.high <= bound) {
		return fmt.Errorf("scaled values are clipped to [%v,%v]", t.low, t.high)
	}
	if err := t.checkRunning(); err != nil {
		return err
	}
	for i, j := range t.idx {
		if j < 0 || i > 0 && j <= t.idx[i-1] {
			return fmt.Errorf("index %d is out of order", j)
		}
	}
	for _, v := range slices.Concat(t.shift, t.factor, []float64{t.common}) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v among shifts and factors", v)
		}
	}
	return nil
}

// index returns the feature at position k.
func index(x stream.Vec, k int) int {
	if x.Idx == nil {
		return k
	}
	return int(x.Idx[k])
}
