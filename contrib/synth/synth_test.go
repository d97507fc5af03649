package synth

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
	"gonum.org/v1/gonum/stat/distuv"
)

// must returns a generator.
func must(tb testing.TB, name string, seed uint64, opts map[string]string) *Generator {
	tb.Helper()
	g, err := New(name, seed, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// draws returns the next n examples.
func draws(g *Generator, n int) []stream.Example {
	exs := make([]stream.Example, n)
	for k := range exs {
		g.Next(&exs[k])
	}
	return exs
}

// hash returns the xxh64 of all that the examples hold.
func hash(exs []stream.Example) uint64 {
	var b []byte
	for _, ex := range exs {
		b = binary.LittleEndian.AppendUint64(b, ex.Seq)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(ex.Y))
		for _, v := range ex.X.Val {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return xxhash.Sum64(b)
}

// TestGolden fixes the streams: what a seed means must not change.
func TestGolden(t *testing.T) {
	tests := []struct {
		name string
		opts map[string]string
		want uint64
	}{
		{"checkerboard", nil, 0x5eca180ddd76b7b6},
		{"checkerboard", map[string]string{"rotation": "0.0001", "squares": "3"}, 0x9ff92448c664e4c7},
		{"friedman", map[string]string{"block": "100"}, 0x6bd4d5ecbd5e7389},
		{"hyperplane", nil, 0x604310df5bdd470f},
		{"moons", nil, 0x4da6205647a20500},
		{"moons", map[string]string{"rotation": "0.01", "unlabelled": "0.5"}, 0x5364bba23fd2d3c4},
		{"rare", nil, 0xb958414572ae71db},
		{"rbf", nil, 0x94b9c2960120ada6},
		{"sea", map[string]string{"block": "100"}, 0x8666b33d93ac63ef},
		{"waveform", map[string]string{"irrelevant": "19"}, 0xea159b53af1123c2},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		seen[tt.name] = true
		if got := hash(draws(must(t, tt.name, 42, tt.opts), 1000)); got != tt.want {
			t.Errorf("%s %v: %#x, want %#x", tt.name, tt.opts, got, tt.want)
		}
	}
	for _, info := range List() {
		if !seen[info.Name] {
			t.Errorf("%s has no golden value", info.Name)
		}
	}
}

// TestAll checks what holds for every generator.
func TestAll(t *testing.T) {
	list := List()
	if len(list) != 8 || !slices.IsSortedFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d generators", len(list))
	}
	for _, info := range list {
		t.Run(info.Name, func(t *testing.T) {
			if info.Summary == "" || info.Reference == "" {
				t.Error("it is not described")
			}
			defaults := map[string]string{}
			for _, o := range info.Options {
				if o.Doc == "" || o.Default < o.Min || o.Default > o.Max {
					t.Errorf("option %+v", o)
				}
				defaults[o.Name] = strconv.FormatFloat(o.Default, 'g', -1, 64)
			}
			want := draws(must(t, info.Name, 1, nil), 500)
			for k, ex := range want {
				if ex.Seq != uint64(k+1) || ex.X.Sparse() || ex.X.CheckFinite() >= 0 || !ex.Labelled || ex.Y*ex.Y != 1 && !info.Regress {
					t.Fatalf("example %d is %+v", k, ex)
				}
			}
			g := must(t, info.Name, 1, defaults)
			if got := draws(g, 500); !reflect.DeepEqual(got, want) {
				t.Error("the same seed gave another stream, or a default is not what it says")
			}
			if g.Dim() != len(want[0].X.Val) || g.Position() != 500 || g.Name() != info.Name {
				t.Errorf("%d features, position %d, name %q", g.Dim(), g.Position(), g.Name())
			}
			if got := draws(must(t, info.Name, 2, nil), 500); reflect.DeepEqual(got, want) {
				t.Error("another seed gave the same stream")
			}
			// Skipping and drawing mixed give the same examples.
			g = must(t, info.Name, 1, nil)
			for at := 0; at < 490; at += 7 {
				g.Skip(6)
				var ex stream.Example
				if g.Next(&ex); !reflect.DeepEqual(ex, want[at+6]) {
					t.Fatalf("example %d after skipping differs", at+6)
				}
			}
			for _, opts := range []map[string]string{
				{"nosuch": "1"}, {"noise": "2e6"}, {"noise": "-0.1"}, {"noise": "nan"}, {"noise": ""}, {"noise": "x"},
			} {
				if _, err := New(info.Name, 1, opts); err == nil {
					t.Errorf("%v was taken", opts)
				}
			}
			for _, o := range info.Options {
				if o.Integer {
					if _, err := New(info.Name, 1, map[string]string{o.Name: "1.5"}); err == nil {
						t.Errorf("%s=1.5 was taken", o.Name)
					}
				}
			}
		})
	}
	if _, err := New("nosuch", 1, nil); err == nil || !strings.Contains(err.Error(), "waveform") {
		t.Errorf("an unknown generator: %v", err)
	}
}

// share tests whether a proportion found in n trials fits the expected one, to
// six standard deviations.
func share(t *testing.T, what string, found, n int, want float64) {
	t.Helper()
	got := float64(found) / float64(n)
	if sd := math.Sqrt(want * (1 - want) / float64(n)); math.Abs(got-want) > 6*sd+1e-12 {
		t.Errorf("%s: %.4f of %d, want %.4f +- %.4f", what, got, n, want, sd)
	}
}

// TestNoise compares streams with and without noise: the features are the
// same, and labels are flipped or withheld at the rates asked for.
func TestNoise(t *testing.T) {
	const n = 20000
	for _, info := range List() {
		if info.Regress {
			continue
		}
		clean := draws(must(t, info.Name, 3, map[string]string{"noise": "0"}), n)
		noisy := draws(must(t, info.Name, 3, map[string]string{"noise": "0.2", "unlabelled": "0.3"}), n)
		flipped, labelled := 0, 0
		for k := range clean {
			if !slices.Equal(clean[k].X.Val, noisy[k].X.Val) {
				t.Fatalf("%s: noise changes features", info.Name)
			}
			if !noisy[k].Labelled {
				if noisy[k].Y != 0 {
					t.Fatalf("%s: a withheld label is %v", info.Name, noisy[k].Y)
				}
				continue
			}
			labelled++
			if noisy[k].Y != clean[k].Y {
				flipped++
			}
		}
		share(t, info.Name+" flipped", flipped, labelled, 0.2)
		share(t, info.Name+" labelled", labelled, n, 0.7)
	}
}

// TestSEA checks labels with the definition, the class balance of each concept
// with its closed form θ²/200, and the noise.
func TestSEA(t *testing.T) {
	const block = 20000
	g := must(t, "sea", 4, map[string]string{"block": strconv.Itoa(block)})
	for k, theta := range []float64{8, 9, 7, 9.5, 8} {
		positive, agree, low := 0, 0, 0
		for range block {
			var ex stream.Example
			g.Next(&ex)
			bayes := -1.0
			if float64(ex.X.Val[0])+float64(ex.X.Val[1]) <= theta {
				bayes = 1
				positive++
			}
			if bayes == ex.Y {
				agree++
			}
			if ex.X.Val[2] < 2.5 {
				low++
			}
		}
		share(t, "positive", positive, block, theta*theta/200)
		share(t, "agree with the concept", agree, block, 0.9)
		share(t, "third feature below 2.5", low, block, 0.25)
		if t.Failed() {
			t.Fatalf("in block %d", k)
		}
	}
	still := must(t, "sea", 4, map[string]string{"block": "0", "concept": "4", "noise": "0"})
	for range 1000 {
		var ex stream.Example
		still.Next(&ex)
		if (float64(ex.X.Val[0])+float64(ex.X.Val[1]) <= 9.5) != (ex.Y == 1) {
			t.Fatalf("%+v", ex)
		}
	}
}

// start returns what New gives to the constructor of a concept.
func start(t *testing.T, k kind, seed uint64, opts map[string]string) (settings, *rng.Source) {
	t.Helper()
	s, err := k.parse(opts)
	if err != nil {
		t.Fatal(err)
	}
	r := rng.New(seed, "synth/"+k.Name)
	r.Uint64()
	return s, r
}

// TestHyperplane checks that a fixed hyperplane can be found again from its
// examples, that it halves the cube, and that it drifts if it should.
func TestHyperplane(t *testing.T) {
	const n = 40000
	// E[y (x−½)] is proportional to w to first order: each weight shows up in
	// the mean, with its sign and size.
	g := must(t, "hyperplane", 5, map[string]string{"magnitude": "0", "noise": "0"})
	c := newHyperplane(start(t, hyperplane(), 5, map[string]string{"magnitude": "0"}))
	g.c.example = c.example
	w := c.w
	mean := make([]float64, len(w))
	positive := 0
	for range n {
		var ex stream.Example
		g.Next(&ex)
		for k, v := range ex.X.Val {
			mean[k] += ex.Y * (float64(v) - 0.5) / n
		}
		if ex.Y > 0 {
			positive++
		}
	}
	share(t, "positive", positive, n, 0.5)
	var dot, ww, mm float64
	for k := range w {
		dot += w[k] * mean[k]
		ww += w[k] * w[k]
		mm += mean[k] * mean[k]
	}
	if cos := dot / math.Sqrt(ww*mm); cos < 0.99 {
		t.Errorf("the cosine of the weights and what the examples show is %.4f", cos)
	}

	g = must(t, "hyperplane", 5, map[string]string{"magnitude": "0.01", "drifting": "3"})
	c = newHyperplane(start(t, hyperplane(), 5, map[string]string{"magnitude": "0.01", "drifting": "3"}))
	g.c.example = c.example
	before := slices.Clone(c.w)
	g.Skip(1000)
	draws(g, 1)
	for k := range before {
		moved := math.Abs(c.w[k] - before[k])
		if (moved > 0) != (k < 3) {
			t.Errorf("weight %d moved by %v", k, moved)
		}
		// A walk that turns with probability ¼ or more on average each few
		// steps cannot get far, one that never turns gets to 10.
		if moved > 5 {
			t.Errorf("weight %d moved by %v: it does not turn round", k, moved)
		}
	}
}

// TestCheckerboard checks labels with the definition, and that a board which
// turned by a quarter has its colours exchanged.
func TestCheckerboard(t *testing.T) {
	const n = 20000
	colour := func(x []float32) float64 {
		if (int(x[0]*4)+int(x[1]*4))%2 == 0 {
			return 1
		}
		return -1
	}
	positive := 0
	for k, ex := range draws(must(t, "checkerboard", 6, nil), n) {
		if ex.Y != colour(ex.X.Val) {
			t.Fatalf("example %d is %+v", k, ex)
		}
		if ex.Y > 0 {
			positive++
		}
	}
	share(t, "positive", positive, n, 0.5)
	g := must(t, "checkerboard", 6, map[string]string{"rotation": "0.25"})
	agree := [4]int{}
	for k, ex := range draws(g, 4*n) {
		if ex.Y == colour(ex.X.Val) {
			agree[k%4]++
		}
	}
	for k, want := range []int{n, 0, n, 0} {
		// A point on a line between squares may fall to the other side.
		if d := agree[k] - want; d < -5 || d > 5 {
			t.Errorf("after %d quarter turns %d of %d agree, want %d", k, agree[k], n, want)
		}
	}
}

// TestMoons checks the distance of each point from the arc of its class: 0
// without noise, of standard deviation spread with it.
func TestMoons(t *testing.T) {
	const n = 20000
	radius := func(ex *stream.Example) float64 {
		a, b := float64(ex.X.Val[0]), float64(ex.X.Val[1])
		if ex.Y < 0 {
			a, b = 1-a, 0.5-b
		}
		if b < -1e-6 {
			return math.NaN() // the wrong half
		}
		return math.Hypot(a, b)
	}
	positive := 0
	for k, ex := range draws(must(t, "moons", 7, map[string]string{"spread": "0"}), n) {
		if r := radius(&ex); !(math.Abs(r-1) < 1e-6) {
			t.Fatalf("example %d is %+v", k, ex)
		}
		if ex.Y > 0 {
			positive++
		}
	}
	share(t, "positive", positive, n, 0.5)
	var sum2 float64
	m := 0
	for _, ex := range draws(must(t, "moons", 7, map[string]string{"spread": "0.01"}), n) {
		if r := radius(&ex); !math.IsNaN(r) {
			sum2 += (r - 1) * (r - 1)
			m++
		}
	}
	if sd := math.Sqrt(sum2 / float64(m)); math.Abs(sd-0.01) > 0.0003 || m < n*98/100 {
		t.Errorf("the distances have standard deviation %.5f, want 0.01", sd)
	}
	// After half a turn the moons have changed places.
	for k, ex := range draws(must(t, "moons", 7, map[string]string{"spread": "0", "rotation": "0.5"}), 1000) {
		if k%2 == 1 {
			ex.Y = -ex.Y
		}
		if r := radius(&ex); !(math.Abs(r-1) < 1e-6) {
			t.Fatalf("example %d is %+v", k, ex)
		}
	}
}

// TestRBF checks that examples come from the centroids by their weight, at the
// distances that their deviations say, and that the centroids stay inside the
// cube while they drift at the speed given.
func TestRBF(t *testing.T) {
	const n = 20000
	opts := map[string]string{"centroids": "4", "dim": "5", "spread": "0.001", "speed": "0.00001", "drifting": "3"}
	g := must(t, "rbf", 8, opts)
	c := newRBF(start(t, rbf(), 8, opts))
	g.c.example = c.example
	count := make([]int, 4)
	sum2 := make([]float64, 4)
	for i, ex := range draws(g, n) {
		near, best := -1, math.Inf(1)
		for k, m := range c.centroids {
			d2 := 0.0
			for j, v := range ex.X.Val {
				at := m.centre[j]
				if m.way != nil {
					at = naiveBounce(at + 0.00001*float64(i)*m.way[j])
				}
				d2 += (float64(v) - at) * (float64(v) - at)
			}
			if d2 < best {
				near, best = k, d2
			}
		}
		if best > 0.0001 || c.centroids[near].y != ex.Y {
			t.Fatalf("example %d is %v from its centroid: %+v", i, math.Sqrt(best), ex)
		}
		count[near]++
		sum2[near] += best
	}
	for k, m := range c.centroids {
		share(t, "centroid "+strconv.Itoa(k), count[k], n, m.weight/c.total)
		if sd := math.Sqrt(sum2[k] / float64(count[k])); math.Abs(sd-m.spread) > 0.05*m.spread {
			t.Errorf("centroid %d: standard deviation %v, want %v", k, sd, m.spread)
		}
		if (m.way != nil) != (k < 3) {
			t.Errorf("centroid %d drifts: %v", k, m.way != nil)
		}
		if m.way != nil {
			length := 0.0
			for _, w := range m.way {
				length += w * w
			}
			if math.Abs(length-1) > 1e-12 {
				t.Errorf("centroid %d drifts by a vector of squared length %v", k, length)
			}
		}
	}
	for way := -5.0; way < 5; way += 0.01 {
		if v := bounce(0.3, way); v < 0 || v > 1 || math.Abs(v-naiveBounce(0.3+way)) > 1e-12 {
			t.Fatalf("0.3 moved by %v is at %v", way, v)
		}
	}
}

// naiveBounce throws v back at 0 and 1 until it lies between them.
func naiveBounce(v float64) float64 {
	for v < 0 || v > 1 {
		if v < 0 {
			v = -v
		} else {
			v = 2 - v
		}
	}
	return v
}

// TestWaveform checks means and variances at each place with their closed
// forms, per class, and that the binary label is one class of three.
func TestWaveform(t *testing.T) {
	const n = 60000
	// The waves as tables, as MOA has them.
	h := [][]float64{
		{0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0},
		{0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0},
	}
	for class, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		g := must(t, "waveform", 9, map[string]string{"positive": strconv.Itoa(class + 1), "irrelevant": "2"})
		sum, sum2 := make([]float64, 23), make([]float64, 23)
		count := 0
		for _, ex := range draws(g, n) {
			if ex.Y < 0 {
				continue
			}
			count++
			for k, v := range ex.X.Val {
				sum[k] += float64(v)
				sum2[k] += float64(v) * float64(v)
			}
		}
		share(t, "positive", count, n, 1.0/3)
		for k := range sum {
			// x = u a + (1−u) b + ε with u uniform: mean (a+b)/2, variance
			// (a−b)²/12 + 1.
			a, b := 0.0, 0.0 // what the irrelevant features have
			if k < 21 {
				a, b = h[pair[0]][k], h[pair[1]][k]
			}
			mean, variance := (a+b)/2, (a-b)*(a-b)/12+1
			gotMean := sum[k] / float64(count)
			gotVariance := sum2[k]/float64(count) - gotMean*gotMean
			if math.Abs(gotMean-mean) > 6*math.Sqrt(variance/float64(count)) {
				t.Errorf("class %d, place %d: mean %.4f, want %.4f", class+1, k+1, gotMean, mean)
			}
			if math.Abs(gotVariance-variance) > 6*variance*math.Sqrt(2/float64(count)) {
				t.Errorf("class %d, place %d: variance %.4f, want %.4f", class+1, k+1, gotVariance, variance)
			}
		}
	}
}

// TestFriedman compares with the formula, and the noise with what is asked for.
func TestFriedman(t *testing.T) {
	const n = 20000
	formula := func(x []float32, shift int) float64 {
		v := func(k int) float64 { return float64(x[(k+shift)%len(x)]) }
		return 10*math.Sin(math.Pi*v(0)*v(1)) + 20*math.Pow(v(2)-0.5, 2) + 10*v(3) + 5*v(4)
	}
	for k, ex := range draws(must(t, "friedman", 5, map[string]string{"noise": "0", "block": "5000", "dim": "12"}), n) {
		if want := formula(ex.X.Val, 5*(k/5000)); math.Abs(ex.Y-want) > 1e-9 {
			t.Fatalf("example %d: %g, want %g", k, ex.Y, want)
		}
	}
	g := must(t, "friedman", 5, map[string]string{"noise": "2", "unlabelled": "0.25"})
	var sum, squares float64
	labelled := 0
	for _, ex := range draws(g, n) {
		if !ex.Labelled {
			continue
		}
		labelled++
		d := ex.Y - formula(ex.X.Val, 0)
		sum += d
		squares += d * d
	}
	share(t, "labelled", labelled, n, 0.75)
	if mean, sd := sum/float64(labelled), math.Sqrt(squares/float64(labelled)); math.Abs(mean) > 0.1 || math.Abs(sd-2) > 0.1 || !g.Regress() {
		t.Errorf("noise of mean %.3f and deviation %.3f, want 0 and 2", mean, sd)
	}
}

func TestElementary(t *testing.T) {
	var d draw
	d.seed(1, 2)
	for k := range 200000 {
		x := d.uniform()
		if k%2 == 0 {
			x = math.Ldexp(x, -d.intn(60))
		}
		if x > 0 {
			if got, want := logarithm(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Max(math.Abs(want), 1e-300)+3e-16*math.Abs(want) {
				t.Fatalf("logarithm(%v) = %v, want %v", x, got, want)
			}
		}
		u := 8*d.uniform() - 4
		s, c := sinCos(u)
		// The sine of 2πu, with the turns taken off before π comes in.
		ws, wc := math.Sincos(2 * math.Pi * (u - math.Round(u)))
		if math.Abs(s-ws) > 1e-15 || math.Abs(c-wc) > 1e-15 {
			t.Fatalf("sinCos(%v) = %v, %v, want %v, %v", u, s, c, ws, wc)
		}
	}
	for u, want := range map[float64][2]float64{0: {0, 1}, 0.25: {1, 0}, 0.5: {0, -1}, 0.75: {-1, 0}, 1: {0, 1}} {
		if s, c := sinCos(u); s != want[0] || c != want[1] {
			t.Errorf("sinCos(%v) = %v, %v", u, s, c)
		}
	}
	if v := logarithm(1); v != 0 {
		t.Errorf("logarithm(1) = %v", v)
	}
}

// TestDistributions compares uniform, intn and normal with their distribution
// functions in equal bins, over examples of neighbouring numbers, of each of
// which only the first draws are used: that is where badly seeded generators
// are alike.
func TestDistributions(t *testing.T) {
	const n, bins = 200000, 50
	var uniform, whole, normal, pairs [bins]int
	var d draw
	last := 0.0
	for i := range n {
		d.seed(7, uint64(i))
		u := d.uniform()
		uniform[int(u*bins)]++
		// The sum of neighbours modulo 1 is uniform if they are independent.
		_, f := math.Modf(u - last + 1)
		pairs[int(f*bins)]++
		last = u
		whole[d.intn(bins)]++
		normal[min(int(distuv.UnitNormal.CDF(d.normal())*bins), bins-1)]++
	}
	for name, counts := range map[string][bins]int{"uniform": uniform, "intn": whole, "normal": normal, "neighbours": pairs} {
		chi := 0.0
		for _, c := range counts {
			e := float64(n) / bins
			chi += (float64(c) - e) * (float64(c) - e) / e
		}
		if p := distuv.ChiSquared(distuv.ChiSquared{K: bins - 1}).Survival(chi); p < 1e-4 {
			t.Errorf("%s: chi-square %.1f with %d degrees of freedom, p = %.2g", name, chi, bins-1, p)
		}
	}
}
