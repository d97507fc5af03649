package prep

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// Asinh maps v to asinh((v − Center)/Size), which is linear near Center and logarithmic far
// from it. It is for features with heavy tails, such as amounts, durations and sizes, which
// otherwise are much the same for all examples but the largest. Size 0 stands for no change.
type Asinh struct{ Center, Size float64 }

// Of returns the image of v.
func (a Asinh) Of(v float64) float64 {
	if a.Size == 0 {
		return v
	}
	if v == a.Center {
		return 0
	}
	// Not math.Asinh, whose bits differ between machines.
	u := math.Abs(v-a.Center) / a.Size
	return math.Copysign(linear.Log(u+math.Sqrt(float64(u*u)+1)), v-a.Center)
}

// Inverse returns the value whose image is y.
func (a Asinh) Inverse(y float64) float64 {
	if a.Size == 0 {
		return y
	}
	return a.Center + float64(a.Size*math.Sinh(y))
}

// Inverses returns the values whose images are ys; list, with a map for each of the first
// features, may be nil.
func Inverses(list []Asinh, ys []float64) []float64 {
	if list == nil {
		return ys
	}
	xs := slices.Clone(ys)
	for j, a := range list[:min(len(list), len(xs))] {
		xs[j] = a.Inverse(ys[j])
	}
	return xs
}

const (
	// heavyTails is the least departure, see departure, of a feature with heavy tails.
	heavyTails = 8
	// asinhPays is the share to which asinh must reduce the departure.
	asinhPays = 0.5
	// asinhSample bounds the examples that asinh is fitted on.
	asinhSample = 1024
)

// asinhSizes are the sizes to choose from, as quantiles of the distances from the center.
var asinhSizes = []float64{.9, .75, .5, .25, .1, .05, .02}

// departure returns the departure of xs from normality, skewness² + (kurtosis − 3)²/4 (Jarque
// and Bera, Economics Letters 6, 1980, there times n/6). A uniform distribution has .36, an
// exponential one 13.
func departure(xs []float64) float64 {
	n, sum := float64(len(xs)), 0.0
	for _, v := range xs {
		sum += v
	}
	mean := sum / n
	var m2, m3, m4 float64
	for _, v := range xs {
		d := v - mean
		q := float64(d * d)
		m2 += q
		m3 += float64(q * d)
		m4 += float64(q * q)
	}
	if m2 == 0 {
		return 0
	}
	excess := float64(n*m4)/float64(m2*m2) - 3
	return float64(n*float64(m3*m3))/float64(float64(m2*m2)*m2) + float64(float64(excess*excess)/4)
}

// fitAsinh returns the map whose values are closest to normal, of those that map 0 to 0 if
// centred is not set. It sorts xs.
func fitAsinh(xs []float64, centred bool) Asinh {
	before := departure(xs)
	if !(before > heavyTails && before < math.Inf(1)) {
		return Asinh{}
	}
	slices.Sort(xs)
	center := 0.0
	if centred && xs[0] < 0 {
		center = xs[len(xs)/2]
	}
	var distances []float64
	for _, v := range xs {
		if v != center {
			distances = append(distances, math.Abs(v-center))
		}
	}
	slices.Sort(distances)
	best, least := Asinh{}, asinhPays*before
	ys := make([]float64, len(xs))
	for _, q := range asinhSizes {
		a := Asinh{center, distances[int(q*float64(len(distances)-1))]}
		for i, v := range xs {
			ys[i] = a.Of(v)
		}
		if d := departure(ys); d < least {
			best, least = a, d
		}
	}
	return best
}

// asinh fits maps for a scale that Auto chose, and reports whether there is any.
func (s *stats) asinh(scale string, scaled []bool) bool {
	centred := s.densify()
	return (scale == Standard || scale == None && (centred || slices.Contains(scaled, true))) && s.fitMaps(scaled, centred)
}

// fitMaps fits a map to each feature that is not in scaled, and sets mean and m2 to those of
// the mapped values. It reports whether there is any map.
func (s *stats) fitMaps(scaled []bool, centred bool) bool {
	var sample []stream.Vec
	for i := 0; i < s.n; i += (s.n + asinhSample - 1) / asinhSample {
		sample = append(sample, s.xs[i])
	}
	values := make([][]float64, len(s.features))
	s.visit(sample, func(k int, v float64) {
		if j := int(s.features[k].idx); j >= len(scaled) || !scaled[j] {
			values[k] = append(values[k], v)
		}
	})
	found := false
	for k, xs := range values {
		if xs == nil {
			continue
		}
		xs = append(xs, make([]float64, len(sample)-len(xs))...)
		s.features[k].asinh = fitAsinh(xs, centred)
		found = found || s.features[k].asinh.Size > 0
	}
	if found {
		s.moments()
	}
	return found
}

// withoutAsinh says by index which features have no map.
func (s *stats) withoutAsinh() []bool {
	list := make([]bool, s.dim)
	for _, f := range s.features {
		list[f.idx] = f.asinh.Size == 0
	}
	return list
}

// mapTails takes over the maps. If keep is set, a mapped feature gets the range that it had.
func (t *Transform) mapTails(s *stats, keep bool) {
	t.asinh = make([]Asinh, len(t.factor))
	for k, f := range s.features {
		if t.dense {
			k = int(f.idx)
		}
		t.asinh[k] = f.asinh
		if !keep || f.asinh.Size == 0 {
			continue
		}
		lo, hi := f.span(s.n)
		a, b := f.asinh.Of(lo), f.asinh.Of(hi)
		t.factor[k] = (hi - lo) / (b - a)
		if t.dense {
			t.shift[k] = a - lo/t.factor[k]
		}
	}
}

// FitAsinh returns the maps of all features by index, or nil if no feature that is not in
// scaled has heavy tails. They map 0 to 0 if centred is not set.
func FitAsinh(examples []*stream.Example, scaled []bool, centred bool) []Asinh {
	s := collect(examples, func(x stream.Vec) stream.Vec { return x })
	if !s.fitMaps(scaled, centred) {
		return nil
	}
	list := make([]Asinh, s.dim)
	for _, f := range s.features {
		list[f.idx] = f.asinh
	}
	return list
}

// AsinhFields describes the maps of n features; nil, as in earlier versions, has no fields.
func AsinhFields(f *state.Fields, list *[]Asinh, n int, centred bool) {
	if f.Decoding() {
		*list = nil
	}
	if !f.Next("asinh") && (f.Decoding() || *list == nil) {
		return
	}
	var at []int32
	var center, size []float64
	for k, a := range *list {
		if a.Size > 0 {
			at, center, size = append(at, int32(k)), append(center, a.Center), append(size, a.Size)
		}
	}
	f.Int32s("asinh", &at)
	f.Float64s("asinh_center", &center)
	f.Float64s("asinh_size", &size)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(center) != len(at) || len(size) != len(at) {
		f.Fail("asinh", fmt.Errorf("%d centers and %d sizes of %d features", len(center), len(size), len(at)))
		return
	}
	*list = make([]Asinh, n)
	for i, k := range at {
		c, s := center[i], size[i]
		if k < 0 || int(k) >= n || c-c != 0 || !(s > 0 && s < math.Inf(1)) || !centred && c != 0 {
			f.Fail("asinh", fmt.Errorf("asinh((v − %v)/%v) of feature %d of %d", c, s, k, n))
			return
		}
		(*list)[k] = Asinh{c, s}
	}
}

// asinhOf returns the map of the feature with factor[i].
func (t *Transform) asinhOf(i int) Asinh {
	if t.asinh == nil {
		return Asinh{}
	}
	return t.asinh[i]
}
