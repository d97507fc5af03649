package main

import (
	"math"
	"slices"
	"testing"
)

// TestStepsEqualFormulas compares the learner with the formulas of its doc
// comment, written down with math.Cos and without a scale.
func TestStepsEqualFormulas(t *testing.T) {
	const dim, features, rows = 5, 128, 1000
	x, y, err := draw(rows, dim, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := newLearner(dim, features, 0.1, 1e-3, 9)
	w, bias, step := make([]float64, features), 0.0, l.t
	for i := range rows {
		z, f := make([]float64, features), bias
		freq := make([]float32, dim)
		for j := range z {
			l.freq.Row(freq, j)
			s := float64(l.phase[j])
			for k, v := range freq {
				s += float64(v) * float64(x[i*dim+k])
			}
			z[j] = math.Sqrt(2.0/features) * math.Cos(2*math.Pi*s)
			f += w[j] * z[j]
		}
		eta, yi := 1/(1e-3*step), float64(y[i])
		step++
		for j := range w {
			w[j] *= 1 - eta*1e-3
			if yi*f < 1 {
				w[j] += eta * yi * z[j]
			}
		}
		if yi*f < 1 {
			bias += 0.01 * eta * yi
		}
	}
	for from := 0; from < rows; from += 70 { // no multiple of anything
		to := min(from+70, rows)
		l.learn(x[from*dim:to*dim], y[from:to])
	}
	for j, want := range w {
		if got := l.scale * l.v[j]; math.Abs(got-want) > 1e-3*math.Abs(want)+1e-3 {
			t.Fatalf("weight %d is %g, want %g", j, got, want)
		}
	}
	if math.Abs(l.bias-bias) > 1e-3*math.Abs(bias) {
		t.Errorf("the bias is %g, want %g", l.bias, bias)
	}
}

// TestFeaturesApproximateTheKernel: inner products of features are kernel
// values, but for the error of 4,096 draws.
func TestFeaturesApproximateTheKernel(t *testing.T) {
	const dim, features, gamma = 6, 4096, 0.3
	x, _, err := draw(2, dim, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for k := range dim {
		d := float64(x[k]) - float64(x[dim+k])
		want += d * d
	}
	want = math.Exp(-gamma * want)
	l := newLearner(dim, features, gamma, 1, 2)
	var rows [2][]float32
	l.each(x, 2, func(i int, z []float32) { rows[i] = slices.Clone(z) })
	got := 0.0
	for j := range features {
		got += l.norm * l.norm * float64(rows[0][j]) * float64(rows[1][j])
	}
	if math.Abs(got-want) > 5/math.Sqrt(features) {
		t.Errorf("%g, want %g", got, want)
	}
}

// BenchmarkSGD learns from rows in memory, 256 at a time.
func BenchmarkSGD(b *testing.B) {
	const dim, features, batch, rows = 28, 1024, 256, 78 * 256
	x, y, err := draw(rows, dim, 1, 0)
	if err != nil {
		b.Fatal(err)
	}
	l := newLearner(dim, features, 0.1, 1e-5, 1)
	b.ReportAllocs()
	for b.Loop() {
		for from := 0; from < rows; from += batch {
			l.learn(x[from*dim:(from+batch)*dim], y[from:from+batch])
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
