// Command rff measures the vector code on the method that scikit-learn's users
// build from RBFSampler and SGDClassifier: one pass of stochastic gradient
// descent on the hinge loss over random Fourier features.
//
//	go run -C bench ./rff -rows 400000 -out DIR
//
// It draws the rows, writes them to DIR for bench/peers.py, learns from them in
// memory on one core, and prints one line of JSON.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// rowsAtOnce is the number of rows whose features are computed before learning
// from them: 192 KiB for 1,024 features, which stay in the second-level cache. It
// is a multiple of the rows that the vector code processes together.
const rowsAtOnce = 48

// learner is a linear classifier over random Fourier features (Rahimi and
// Recht, "Random features for large-scale kernel machines", NIPS 2007), cosines
// of random phase. It is trained by the steps of SGDClassifier:
// w ← (1 − ηα)w + η·y·z if y·f(x) < 1, with Bottou's η = 1/(α(t₀+t)), and a bias
// that is not shrunk.
type learner struct {
	freq  *vec.Panels
	phase []float32
	alpha float64
	t     float64 // t₀ plus the number of rows seen
	v     []float64
	scale float64 // w = scale·v, so that shrinking takes one product
	bias  float64
	z     []float32 // rowsAtOnce rows of features
	norm  float64   // features are norm·cos(…)
}

func newLearner(dim, features int, gamma, alpha float64, seed uint64) *learner {
	l := &learner{
		freq: vec.NewPanels(dim), alpha: alpha,
		v: make([]float64, features), scale: 1,
		z: make([]float32, rowsAtOnce*features), norm: math.Sqrt(2 / float64(features)),
		phase: make([]float32, features),
	}
	row := make([]float32, dim)
	for j := range features {
		vec.Normals(row, seed, uint64(j*dim))
		for k := range row {
			// The kernel's spectrum is normal with variance 2γ; in turns.
			row[k] *= float32(math.Sqrt(2*gamma) / (2 * math.Pi))
		}
		l.freq.Append(row)
	}
	r := rng.New(seed, "rff/phase")
	for j := range l.phase {
		l.phase[j] = float32(r.Uint64()>>40) / (1 << 24)
	}
	// The first step has the size of a typical weight, as in SGDClassifier.
	l.t = 1 / (alpha * math.Sqrt(1/math.Sqrt(alpha)))
	return l
}

// learn learns from len(y) rows, which follow each other in x.
func (l *learner) learn(x, y []float32) {
	l.each(x, len(y), func(i int, z []float32) {
		eta := 1 / (l.alpha * l.t)
		l.t++
		yi := float64(y[i])
		margin := yi * (l.scale*l.norm*vec.DotMixed(z, l.v) + l.bias)
		l.scale *= 1 - eta*l.alpha
		if margin < 1 {
			vec.AxpyMixed(eta*yi*l.norm/l.scale, z, l.v)
			l.bias += 0.01 * eta * yi // slower than w: every row moves it
		}
	})
	if l.scale < 1e-6 {
		for j := range l.v {
			l.v[j] *= l.scale
		}
		l.scale = 1
	}
}

// accuracy returns the share of correctly predicted rows.
func (l *learner) accuracy(x, y []float32) float64 {
	right := 0
	l.each(x, len(y), func(i int, z []float32) {
		if f := l.scale*l.norm*vec.DotMixed(z, l.v) + l.bias; (f > 0) == (y[i] > 0) {
			right++
		}
	})
	return float64(right) / float64(len(y))
}

// each calls f with the features of each of n rows.
func (l *learner) each(x []float32, n int, f func(i int, z []float32)) {
	m, d := len(l.v), l.freq.Dim()
	for from := 0; from < n; from += rowsAtOnce {
		k := min(rowsAtOnce, n-from)
		vec.Cos(l.z, m, x[from*d:(from+k)*d], k, l.freq, l.phase, 0, m)
		for i := range k {
			f(from+i, l.z[i*m:(i+1)*m])
		}
	}
}

// draw returns n rows of dim features, a mixture of 100 overlapping clusters,
// and their labels.
func draw(n, dim int, seed uint64, skip int) (x, y []float32, err error) {
	g, err := synth.New("rbf", seed, map[string]string{
		"dim": strconv.Itoa(dim), "centroids": "100", "drifting": "0", "spread": "2", "noise": "0.05",
	})
	if err != nil {
		return nil, nil, err
	}
	g.Skip(uint64(skip))
	x, y = make([]float32, 0, n*dim), make([]float32, n)
	var ex stream.Example
	for i := range y {
		g.Next(&ex)
		x = append(x, ex.X.Val...)
		y[i] = float32(ex.Y)
	}
	return x, y, nil
}

// result is the output.
type result struct {
	Rows     int     `json:"rows"`
	Dim      int     `json:"dim"`
	Features int     `json:"features"`
	Gamma    float64 `json:"gamma"`
	Alpha    float64 `json:"alpha"`
	Rate     float64 `json:"rows_per_second"`
	Accuracy float64 `json:"accuracy"`
}

func main() {
	rows := flag.Int("rows", 400_000, "rows to learn from")
	tests := flag.Int("test", 20_000, "rows to test on")
	dim := flag.Int("dim", 28, "features of a row")
	features := flag.Int("features", 1024, "random features")
	batch := flag.Int("batch", 256, "rows handed over at a time")
	gamma := flag.Float64("gamma", 0.1, "kernel width")
	alpha := flag.Float64("alpha", 1e-5, "ridge weight")
	out := flag.String("out", "", "directory for the rows: train.x, train.y, test.x, test.y, float32")
	flag.Parse()
	if err := run(*rows, *tests, *dim, *features, *batch, *gamma, *alpha, *out); err != nil {
		fmt.Fprintln(os.Stderr, "rff:", err)
		os.Exit(1)
	}
}

func run(rows, tests, dim, features, batch int, gamma, alpha float64, out string) error {
	x, y, err := draw(rows, dim, 1, 0)
	if err != nil {
		return err
	}
	tx, ty, err := draw(tests, dim, 1, rows)
	if err != nil {
		return err
	}
	if out != "" {
		err = errors.Join(write(out, "train.x", x), write(out, "train.y", y), write(out, "test.x", tx), write(out, "test.y", ty))
		if err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(1)
	l := newLearner(dim, features, gamma, alpha, 1)
	start := time.Now()
	for from := 0; from < rows; from += batch {
		to := min(from+batch, rows)
		l.learn(x[from*dim:to*dim], y[from:to])
	}
	took := time.Since(start)
	return json.NewEncoder(os.Stdout).Encode(result{
		Rows: rows, Dim: dim, Features: features, Gamma: gamma, Alpha: alpha,
		Rate: float64(rows) / took.Seconds(), Accuracy: l.accuracy(tx, ty),
	})
}

// write stores v as little-endian float32.
func write(dir, name string, v []float32) error {
	b := make([]byte, 0, 4*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return os.WriteFile(filepath.Join(dir, name), b, 0o644)
}
