package prep

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/stream"
)

func dense(v ...float32) stream.Vec { return stream.Vec{Val: v} }

// sparse takes index, value, index, value…
func sparse(iv ...float32) stream.Vec {
	x := stream.Vec{Idx: []int32{}}
	for k := 0; k < len(iv); k += 2 {
		x.Idx = append(x.Idx, int32(iv[k]))
		x.Val = append(x.Val, iv[k+1])
	}
	return x
}

func examples(xs ...stream.Vec) []*stream.Example {
	es := make([]*stream.Example, len(xs))
	for i, x := range xs {
		es[i] = &stream.Example{Seq: uint64(i + 1), X: x}
	}
	return es
}

func fit(t testing.TB, scale string, xs ...stream.Vec) *Transform {
	t.Helper()
	tr, err := Fit(examples(xs...), Options{Scale: scale})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// random returns n vectors of dim features, each present with probability p;
// features have very different ranges, and every fifth is constant.
func random(r *rng.Source, n, dim int, p float64, dense bool) []stream.Vec {
	xs := make([]stream.Vec, n)
	for i := range xs {
		x := stream.Vec{}
		if !dense {
			x.Idx = []int32{}
		}
		for j := range dim {
			v := float32(0)
			if r.Float64() < p {
				v = (r.Float32() - 0.3) * float32(math.Ldexp(1, j%20-5))
			}
			if j%5 == 4 {
				v = float32(j)
			}
			if dense {
				x.Val = append(x.Val, v)
			} else if v != 0 {
				x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, v)
			}
		}
		xs[i] = x
	}
	return xs
}

// column returns feature j of every vector, zeros filled in.
func column(xs []stream.Vec, j int) []float64 {
	c := make([]float64, len(xs))
	for i, x := range xs {
		for k, v := range x.Val {
			if index(x, k) == j {
				c[i] = float64(v)
			}
		}
	}
	return c
}

// TestAgainstColumns compares each scale with its definition, feature by
// feature, on dense, rather dense and rather sparse data.
func TestAgainstColumns(t *testing.T) {
	const seed, dim = 11, 40
	for _, kind := range []struct {
		p     float64
		dense bool
		shift bool // zeros do not stay zeros
	}{{1, true, true}, {0.3, true, true}, {0.9, false, true}, {0.02, false, false}} {
		r := rng.New(seed, fmt.Sprint(kind))
		if !kind.dense && !kind.shift {
			// Constants would raise the density.
			kind.p = 0.05
		}
		warm, later := random(r, 300, dim, kind.p, kind.dense), random(r, 50, dim, kind.p, kind.dense)
		if !kind.shift {
			for _, xs := range [][]stream.Vec{warm, later} {
				for i := range xs {
					xs[i] = without(xs[i], 5)
				}
			}
		}
		for _, scale := range []string{MinMax, Standard, Common} {
			tr := fit(t, scale, warm...)
			if scale != Common && tr.dense != kind.shift {
				t.Fatalf("seed %d, %+v, %s: dense %v", seed, kind, scale, tr.dense)
			}
			var out []stream.Vec
			for _, x := range later {
				out = append(out, tr.Apply(x))
			}
			largest := 0.0
			for j := range dim {
				for _, v := range column(warm, j) {
					largest = max(largest, math.Abs(v))
				}
			}
			for j := range dim {
				c := column(warm, j)
				lo, hi := slices.Min(c), slices.Max(c)
				mean, sd := stat.PopMeanStdDev(c, nil)
				got, in := column(out, j), column(later, j)
				for i, v := range in {
					var want float64
					switch {
					case scale == Common:
						want = min(max(v/largest, -2), 2)
					case lo == hi:
						want = min(max(v-lo, -1), 1)
					case scale == MinMax && kind.shift:
						want = min(max((v-lo)/(hi-lo), -1), 2)
					case scale == MinMax:
						want = min(max(v/max(-lo, hi), -2), 2)
					case kind.shift:
						want = min(max((v-mean)/sd, -6), 6)
					default:
						want = min(max(v/sd, -6), 6)
					}
					if !scalar.EqualWithinAbsOrRel(got[i], want, 1e-6, 1e-6) {
						t.Fatalf("seed %d, %+v, %s: feature %d of example %d: %v becomes %v, want %v", seed, kind, scale, j, i, v, got[i], want)
					}
				}
			}
		}
	}
}

// without drops every feature j with j%m == m-1.
func without(x stream.Vec, m int32) stream.Vec {
	y := stream.Vec{Idx: []int32{}}
	for k, j := range x.Idx {
		if j%m != m-1 {
			y.Idx, y.Val = append(y.Idx, j), append(y.Val, x.Val[k])
		}
	}
	return y
}

func TestByHand(t *testing.T) {
	tests := []struct {
		name, scale string
		warm        []stream.Vec
		in, want    stream.Vec
	}{
		{"none", None, nil, sparse(3, 7), sparse(3, 7)},
		{"unit", Unit, nil, dense(3, 0, -4), dense(0.6, 0, -0.8)},
		{"unit sparse", Unit, nil, sparse(1, 3, 9, 4), sparse(1, 0.6, 9, 0.8)},
		{"unit of nothing", Unit, nil, sparse(), sparse()},
		{"unit of zeros", Unit, nil, dense(0, 0), dense(0, 0)},
		{"common", Common, []stream.Vec{dense(1, -8), dense(0, 4)}, sparse(0, 4, 77, 16), sparse(0, 0.5, 77, 2)},
		{"common, clipped", Common, []stream.Vec{dense(1, -8), dense(0, 4)}, sparse(0, -17, 77, 16.5), sparse(0, -2, 77, 2)},
		{"common of zeros", Common, []stream.Vec{dense(0)}, dense(3), dense(3)},
		{"minmax", MinMax, []stream.Vec{dense(0, 10), dense(4, 30)}, dense(1, 40), dense(0.25, 1.5)},
		{"minmax, clipped", MinMax, []stream.Vec{dense(0, 10), dense(4, 30)}, dense(-5, 51), dense(-1, 2)},
		{"minmax of zeros kept, clipped", MinMax, []stream.Vec{sparse(7, 2), sparse(9000, -4)}, sparse(7, -5, 9000, 9), sparse(7, -2, 9000, 2)},
		{"standard, clipped", Standard, []stream.Vec{dense(0, 1), dense(4, 3)}, dense(15, -5), dense(6, -6)},
		{"standard", Standard, []stream.Vec{dense(0, 1), dense(4, 3)}, dense(4, 2), dense(1, 0)},
		{"constant", Standard, []stream.Vec{dense(5, 0), dense(5, 2)}, dense(5.5, 1), dense(0.5, 0)},
		{"constant, far off", MinMax, []stream.Vec{dense(5, 0), dense(5, 2)}, dense(-100, 1), dense(-1, 0.5)},
		{"almost constant", Standard, []stream.Vec{dense(0.1), dense(0.1), dense(0.1)}, dense(0.1), dense(0)},
		{"sparse made dense", MinMax, []stream.Vec{sparse(0, 2, 1, 1), sparse(1, 3), sparse(0, 4, 1, 3)}, sparse(0, 1), dense(0.25, -0.5)},
		{"beyond the warm-up", MinMax, []stream.Vec{dense(0, 0), dense(1, 1)}, dense(1, 1, 0.5, -9), dense(1, 1, 0.5, -1)},
		{"beyond, sparse", MinMax, []stream.Vec{dense(0, 1), dense(4, 3)}, sparse(0, 1, 4, 7), dense(0.25, -0.5, 0, 0, 1)},
		{"far beyond, sparse", MinMax, []stream.Vec{dense(0, 1), dense(4, 3)}, sparse(0, 1, 4, 7, 1<<30, 1), sparse(0, 0.25, 1, -0.5, 4, 1, 1<<30, 1)},
		{"too short", MinMax, []stream.Vec{dense(1, 2), dense(2, 4)}, dense(2), dense(1, -1)},
		{"far indices", MinMax, []stream.Vec{sparse(7, 2), sparse(9000, -4), sparse(9000, 2)}, sparse(7, 1, 8, 9, 9000, -2, 1<<30, 0.5), sparse(7, 0.5, 8, 1, 9000, -0.5, 1<<30, 0.5)},
		{"dense where zeros are kept", MinMax, []stream.Vec{sparse(1, 2), sparse(9000, 1)}, dense(3, 1), dense(1, 0.5)},
		{"both kinds", MinMax, []stream.Vec{sparse(0, 4), dense(2, 1)}, sparse(0, 4, 1, 1), dense(1, 1)},
	}
	for _, tt := range tests {
		tr := fit(t, tt.scale, tt.warm...)
		in := tt.in.Clone()
		got := tr.Apply(in)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v (%v)", tt.name, got, tt.want, tr)
		}
		if !reflect.DeepEqual(in, tt.in) {
			t.Errorf("%s: the input became %v", tt.name, in)
		}
	}
}

func TestAuto(t *testing.T) {
	r := rng.New(3, "auto")
	ints := func(n, dim int, p, scale float32) (xs []stream.Vec) {
		for range n {
			x := sparse()
			for j := range dim {
				if r.Float32() < p {
					x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, scale*float32(1+r.IntN(255))/255)
				}
			}
			xs = append(xs, x)
		}
		return xs
	}
	binary := ints(100, 200, 0.05, 1)
	for i := range binary {
		for k := range binary[i].Val {
			binary[i].Val[k] = 1
		}
	}
	tests := []struct {
		name string
		xs   []stream.Vec
		want string
	}{
		{"nothing", nil, None},
		{"empty vectors", []stream.Vec{sparse(), sparse()}, None},
		{"binary", binary, None},
		{"scaled", []stream.Vec{dense(-1, 0.2), dense(1, 1.3)}, None},
		{"grey values", ints(100, 400, 0.2, 255), Common},
		{"grey values, dark border", append(ints(100, 400, 0.2, 255), sparse(400, 9, 401, 3)), Common},
		{"colours", []stream.Vec{dense(0, 255, 30), dense(240, 10, 200)}, Common},
		{"offset", []stream.Vec{dense(1001, 1000), dense(1000, 1001)}, Standard},
		{"mixed units", []stream.Vec{dense(1, 850000), dense(0, 120), dense(3, 5)}, Standard},
		{"mixed units, few zeros", []stream.Vec{sparse(0, 1, 1, 850000), sparse(1, 120), sparse(0, 3, 1, 5)}, Standard},
		{"wide counts", append(ints(100, 5000, 0.01, 1), sparse(3, 40), sparse(9000, 80)), MinMax},
	}
	for _, tt := range tests {
		tr := fit(t, Auto, tt.xs...)
		if tr.Scale() != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tr.Scale(), tt.want)
		}
		if same := fit(t, "", tt.xs...); !reflect.DeepEqual(same, tr) {
			t.Errorf("%s: an empty scale is not auto", tt.name)
		}
		if explicit := fit(t, tt.want, tt.xs...); tt.xs != nil {
			explicit.auto = true
			if !reflect.DeepEqual(explicit, tr) {
				t.Errorf("%s: auto gives %v, %s gives %v", tt.name, tr, tt.want, explicit)
			}
		}
	}
}

// TestAutoOfSparseEvents: beside one-hot features, quantities get the scale of these,
// whatever their units, and are not clipped though they are not centred.
func TestAutoOfSparseEvents(t *testing.T) {
	r := rng.New(4, "events")
	const n, dim = 400, 3000
	scaled := make([]bool, dim)
	for j := 2; j < dim; j++ {
		scaled[j] = true
	}
	var xs []stream.Vec
	for range n {
		xs = append(xs, stream.Vec{
			Idx: []int32{0, 1, int32(2 + r.IntN(dim-2))},
			Val: []float32{float32(math.Exp(5 + r.NormFloat64())), float32(1e6 + 1e3*r.NormFloat64()), float32(math.Sqrt(.5))},
		})
	}
	tr, err := Fit(examples(xs...), Options{Scaled: scaled})
	if err != nil {
		t.Fatal(err)
	}
	if tr.Scale() != Standard {
		t.Fatalf("scale %s, want standard", tr.Scale())
	}
	var amount, large []float64
	for _, x := range xs {
		y := tr.Apply(x)
		if y.Val[2] != x.Val[2] {
			t.Fatalf("a category became %v", y.Val[2])
		}
		amount, large = append(amount, float64(y.Val[0])), append(large, float64(y.Val[1]))
	}
	if sd := stat.StdDev(amount, nil); sd < .7 || sd > 1.01 {
		t.Errorf("standard deviation %v of an amount, want nearly 1", sd)
	}
	if slices.Max(large) == slices.Min(large) || slices.Max(large) > 4 {
		t.Errorf("a feature far from 0 is from %v to %v", slices.Min(large), slices.Max(large))
	}
}

func TestFitErrors(t *testing.T) {
	tooLarge := math.MaxInt32
	tooLarge++ // negative where int has 32 bits
	for _, o := range []Options{{Scale: "maximal"}, {HashDim: -1}, {HashDim: tooLarge}} {
		if _, err := Fit(nil, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		_, err := Fit(examples(dense(1), sparse(41, float32(v))), Options{Scale: None})
		if err == nil || !strings.Contains(err.Error(), "example 2: feature 41") {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// TestAlwaysFinite feeds extreme values: squared distances of what comes out
// must be finite in float32.
func TestAlwaysFinite(t *testing.T) {
	extreme := []float32{0, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1e-30, -1, 3, 1e30, math.MaxFloat32, -math.MaxFloat32}
	for _, a := range extreme {
		for _, b := range extreme {
			for _, scale := range []string{Unit, Common, MinMax, Standard} {
				for _, warm := range [][]stream.Vec{{dense(a), dense(b)}, {sparse(5000, a), sparse(5000, b)}} {
					tr := fit(t, scale, warm...)
					for _, v := range extreme {
						y := tr.Apply(stream.Vec{Idx: warm[0].Idx, Val: []float32{v}})
						if d := 2 * y.Val[0]; math.IsInf(float64(d*d), 0) || d != d {
							t.Fatalf("%s of %v, %v: %v becomes %v", scale, a, b, v, y.Val[0])
						}
					}
				}
			}
		}
	}
}

// TestSameBits pins the results bit for bit, on every platform.
func TestSameBits(t *testing.T) {
	frozen := slices.DeleteFunc(Scales(), func(s string) bool { return s == Running })
	sameBits(t, frozen, (*Transform).Apply, 0x8f9a1dafdc1fb1e1)
	sameBits(t, []string{Running}, (*Transform).Next, 0xf79ac494d83f0c40)
}

func sameBits(t *testing.T, scales []string, apply func(*Transform, stream.Vec) stream.Vec, want uint64) {
	h := xxhash.New()
	var b []byte
	for _, scale := range scales {
		for _, hash := range []int{0, 100, 5000} {
			r := rng.New(9, "bits")
			for _, xs := range [][]stream.Vec{random(r, 100, 50, 1, true), random(r, 100, 50, 0.5, false), random(r, 100, 3000, 0.001, false)} {
				tr, err := Fit(examples(xs...), Options{Scale: scale, HashDim: hash})
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range xs {
					y := apply(tr, x)
					b = fmt.Appendf(b[:0], "%v", y.Idx)
					for _, v := range y.Val {
						b = fmt.Appendf(b, " %x", math.Float32bits(v))
					}
					h.Write(b)
				}
			}
		}
	}
	if got := h.Sum64(); got != want {
		t.Errorf("%v: hash of all results is %#x, want %#x", scales, got, want)
	}
}

func TestStoreAndRestore(t *testing.T) {
	r := rng.New(2, "store")
	for _, scale := range Scales() {
		for _, hash := range []int{0, 10} {
			for _, xs := range [][]stream.Vec{random(r, 60, 20, 1, true), random(r, 60, 3000, 0.001, false), nil} {
				tr, err := Fit(examples(xs...), Options{Scale: scale, HashDim: hash})
				if err != nil {
					t.Fatal(err)
				}
				data, err := state.Append(nil, tr.Fields)
				if err != nil {
					t.Fatal(err)
				}
				got := new(Transform)
				if err := state.Decode(data, got.Fields); err != nil {
					t.Fatal(err)
				}
				if again, err := state.Append(nil, got.Fields); err != nil || string(again) != string(data) {
					t.Errorf("%v changes when it is stored again, %v", tr, err)
				}
				if got.String() != tr.String() {
					t.Errorf("%v becomes %v", tr, got)
				}
				for _, x := range append(xs, sparse(0, 1, 7, 3), dense(1, 2, 3)) {
					if a, b := tr.Apply(x), got.Apply(x); !reflect.DeepEqual(a, b) {
						t.Fatalf("%v: %v, restored: %v", tr, a, b)
					}
				}
			}
		}
	}
	var zero Transform
	if x := dense(1, 2); !reflect.DeepEqual(zero.Apply(x), x) || zero.String() != None {
		t.Errorf("the zero transform is %v", &zero)
	}
}

// TestNotClipped reads a transform of a version that did not clip.
func TestNotClipped(t *testing.T) {
	for _, scale := range []string{Common, MinMax, Standard, Running} {
		tr := fit(t, scale, dense(0, 1), dense(4, 3))
		for range 3 {
			tr.Next(dense(1, 2))
			tr.Next(dense(2, 1))
		}
		data, err := state.Append(nil, tr.Fields)
		clip, err2 := state.Append(nil, tr.clipFields)
		if err != nil || err2 != nil || !bytes.HasSuffix(data, clip) || len(clip) == 0 {
			t.Fatalf("%v, %v, bounds in %d of %d bytes", err, err2, len(clip), len(data))
		}
		older := new(Transform)
		if err := state.Decode(data[:len(data)-len(clip)], older.Fields); err != nil {
			t.Fatal(err)
		}
		x := dense(100, -100)
		if now, was := tr.Apply(x), older.Apply(x); now.Val[0] >= was.Val[0] || now.Val[1] <= was.Val[1] {
			t.Errorf("%s: %v, without clipping %v", scale, now.Val, was.Val)
		}
		again, err := state.Append(nil, older.Fields)
		if err != nil || !bytes.Equal(again, data[:len(data)-len(clip)]) {
			t.Errorf("%s: it is stored with bounds, %v", scale, err)
		}
		if older.Next(x); older.Clipped().Values != 0 {
			t.Errorf("%s: %+v", scale, older.Clipped())
		}
	}
}

func TestClipped(t *testing.T) {
	var warm []stream.Vec
	for i := range 20 {
		warm = append(warm, dense(append(make([]float32, 11), float32(i%2))...))
		for j := range 11 {
			warm[i].Val[j] = float32((i + j) % 2)
		}
	}
	tr := fit(t, Standard, warm...)
	tr.Apply(dense(1000)) // only what is learned from counts
	tr.Next(dense(0, 1, 0, 90, -90, 1))
	tr.Next(dense(0, 1, 0, 1, 90, 1))
	tr.Next(dense(0, 1))
	want := Clipped{Values: 3, Examples: 2, Features: []int32{3, 4}}
	if got := tr.Clipped(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	all := make([]float32, 12)
	for j := range all {
		all[j] = 90
	}
	tr.Next(dense(all...))
	want = Clipped{Values: 15, Examples: 3, Features: []int32{3, 4, 0, 1, 2, 5, 6, 7}}
	if got := tr.Clipped(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	data, err := state.Append(nil, tr.ClippedFields)
	if err != nil {
		t.Fatal(err)
	}
	back := new(Transform)
	if err := state.Decode(data, back.ClippedFields); err != nil || !reflect.DeepEqual(back.Clipped(), want) {
		t.Errorf("read back: %+v, %v", back.Clipped(), err)
	}
	tr.clipped.Features = make([]int32, maxClipped+1)
	if data, err = state.Append(nil, tr.ClippedFields); err != nil {
		t.Fatal(err)
	}
	if err := state.Decode(data, back.ClippedFields); err == nil {
		t.Error("too many features are accepted")
	}
}

func TestRefusesNonsense(t *testing.T) {
	for name, tr := range map[string]*Transform{
		"scale":         {scale: "log"},
		"auto":          {scale: Auto},
		"hash":          {hashDim: -5},
		"lengths":       {scale: MinMax, idx: []int32{1, 2}, factor: []float64{1}},
		"dense lengths": {scale: MinMax, dense: true, factor: []float64{1}},
		"shift":         {scale: MinMax, idx: []int32{1}, shift: []float64{1}, factor: []float64{1}},
		"order":         {scale: MinMax, idx: []int32{2, 2}, factor: []float64{1, 1}},
		"negative":      {scale: MinMax, idx: []int32{-1}, factor: []float64{1}},
		"NaN":           {scale: MinMax, idx: []int32{1}, factor: []float64{math.NaN()}},
		"infinite":      {scale: Common, common: math.Inf(-1)},
		"bounds":        {scale: Common, common: 1, low: 2, high: 1},
		"far bounds":    {scale: Common, common: 1, low: -1, high: 2e15},
		"NaN bounds":    {scale: Common, common: 1, low: math.NaN(), high: 1},
	} {
		data, err := state.Append(nil, tr.Fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, new(Transform).Fields); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestString(t *testing.T) {
	a, b := dense(1, 100), dense(2, 900)
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Scale: None}, "none"},
		{Options{}, "standard over 2 features (auto)"},
		{Options{Scale: Common, HashDim: 4}, "hashed to 4 features, common 0.001111"},
		{Options{Scale: MinMax, HashDim: 1 << 20}, "hashed to 1048576 features, minmax over 2 features, zeros kept"},
	} {
		tr, err := Fit(examples(a, b), tt.o)
		if err != nil || tr.String() != tt.want {
			t.Errorf("got %q, want %q, %v", tr, tt.want, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, scale := range Scales() {
		data, err := state.Append(nil, fit(f, scale, dense(1, 2), dense(3, 9)).Fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr := new(Transform)
		var err error
		alloctest.Check(t, len(data), func() { err = state.Decode(data, tr.Fields) })
		if err != nil {
			return
		}
		for _, x := range []stream.Vec{{}, dense(1, -2, 3e38), sparse(0, 1, 5, -1e30, 1<<30, 4)} {
			if y := tr.Apply(x); y.CheckFinite() >= 0 {
				t.Fatalf("%v: %v becomes %v", tr, x, y)
			}
		}
	})
}

// TestWeighted: every scaled value is multiplied by its feature's weight, and the result is a
// transform like others: it can be stored, and its plain form says the same.
func TestWeighted(t *testing.T) {
	r := rng.New(7, "weighted")
	weights := make([]float64, 30)
	for j := range weights {
		weights[j] = 1 / float64(1+j%8)
	}
	for _, dense := range []bool{true, false} {
		for _, scale := range []string{None, Common, MinMax, Standard, Auto} {
			xs := random(r, 200, 20, 0.3, dense)
			plain := fit(t, scale, xs...)
			data, err := state.Append(nil, plain.Weighted(weights).Fields)
			if err != nil {
				t.Fatal(err)
			}
			var weighted Transform
			if err := state.Decode(data, weighted.Fields); err != nil {
				t.Fatalf("%s: %v", scale, err)
			}
			for _, x := range xs {
				want, got := plain.Apply(x), weighted.Apply(x)
				for k, v := range want.Val {
					j := index(want, k)
					w := weights[j]
					if j%5 == 4 && (plain.Scale() == MinMax || plain.Scale() == Standard) {
						w = 1 // the feature is constant, so its scale is not known
					}
					if math.Abs(float64(v)*w-float64(got.Val[k])) > 1e-6*math.Abs(float64(v)) {
						t.Fatalf("%s, dense %v: feature %d is %v, weighted with %v it is %v", scale, dense, j, v, w, got.Val[k])
					}
				}
			}
			if e := weighted.Export(); len(e.Index) != len(e.Factor) || scale == Common && e.Common != 0 {
				t.Errorf("%s: plain form %+v", scale, e)
			}
		}
	}
	for _, scale := range []string{Unit, Running} {
		if w := fit(t, scale, random(r, 10, 3, 1, true)...).Weighted(weights); w != nil {
			t.Errorf("%s: %v", scale, w)
		}
	}
}
