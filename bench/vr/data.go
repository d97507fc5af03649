package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/internal/finitesum"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// table is a data set: rows of unit length with labels ±1.
type table struct {
	name string
	rows []stream.Vec
	b    []float64
	dim  int
}

// load returns the named set: a file of dir, or the generated one.
func load(dir, name string, generated int) (*table, error) {
	if name == "generated" {
		return generate(generated, 18), nil
	}
	file := map[string]string{"ijcnn1": "ijcnn1.train", "reuters_moneyfx": "reuters_moneyfx.train", "covtype15k": "covtype15k"}[name]
	if file == "" {
		return nil, fmt.Errorf("no data set %q", name)
	}
	f, err := os.Open(filepath.Join(dir, file+".libsvm.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		return nil, err
	}
	t := &table{name: name}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e stream.Example
		if err := c.Decode(append([]byte(nil), lines.Bytes()...), &e); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, len(t.rows)+1, err)
		}
		t.rows, t.b = append(t.rows, e.X), append(t.b, e.Y)
		t.dim = max(t.dim, e.X.Dim())
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	t.finish()
	return t, nil
}

// finish makes rows of unit length, dense ones where a fifth is not 0.
func (t *table) finish() {
	nnz := 0
	for _, x := range t.rows {
		nnz += len(x.Val)
	}
	dense := 5*nnz > len(t.rows)*t.dim
	for i, x := range t.rows {
		if dense {
			v := make([]float32, t.dim)
			x.Dense(v)
			x = stream.Vec{Val: v}
		}
		s := 0.0
		for _, v := range x.Val {
			s += float64(v) * float64(v)
		}
		if s > 0 {
			for k := range x.Val {
				x.Val[k] = float32(float64(x.Val[k]) / math.Sqrt(s))
			}
		}
		t.rows[i] = x
	}
}

// generate stands in for SUSY: n rows of 18 correlated features, physical
// quantities of which eight are positive, and a label that is wrong a fifth of
// the time.
func generate(n, d int) *table {
	t := &table{name: "generated", dim: d}
	r := rng.New(7, "bench.vr")
	mix := make([]float64, d*4)
	for k := range mix {
		mix[k] = r.NormFloat64()
	}
	all := make([]float32, n*d)
	for i := range n {
		var f [4]float64
		for k := range f {
			f[k] = r.NormFloat64()
		}
		x, z := all[i*d:(i+1)*d:(i+1)*d], 0.0
		for j := range x {
			v := .7 * r.NormFloat64()
			for k := range f {
				v += f[k] * mix[4*j+k] / 2
			}
			if j%2 == 0 && j < 16 {
				v = math.Abs(v)
			}
			x[j] = float32(v)
			z += v * mix[j]
		}
		b := 1.0
		if z < 1 != (r.Float64() < .2) {
			b = -1
		}
		t.rows, t.b = append(t.rows, stream.Vec{Val: x}), append(t.b, b)
	}
	t.finish()
	return t
}

// problem returns the squared loss on the rows, the targets times scale.
func (t *table) problem(ridge, lasso, scale float64) *finitesum.Problem {
	p := &finitesum.Problem{Ridge: ridge, Lasso: lasso}
	for i, x := range t.rows {
		p.Append(x, scale*t.b[i])
	}
	p.Widen(t.dim)
	return p
}
