package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// gram holds the Gaussian kernel values of all pairs of training points and,
// after them, of every test point with every training point: the very values
// that the learners would compute. It lies outside the heap, whose size would
// otherwise double before the collector runs.
type gram struct {
	n, m   int // training and test points
	values []float32
	memory []byte
}

// tabulated is a learner that takes kernel values from a table.
type tabulated interface{ Tabulate(kernel.Table) }

// Values returns the row of a point; test points come after training points.
func (g *gram) Values(i int) []float32 { return g.values[i*g.n : (i+1)*g.n : (i+1)*g.n] }

func (g *gram) close() error { return unix.Munmap(g.memory) }

// gramBlock is the number of rows computed together.
const gramBlock = 24

// newGram computes the values.
func newGram(ctx context.Context, train, test set, gamma float64) (*gram, error) {
	g := &gram{n: len(train), m: len(test)}
	var err error
	g.memory, err = unix.Mmap(-1, 0, 4*g.n*(g.n+g.m), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("-gram: %d MiB for the kernel values: %w", 4*g.n*(g.n+g.m)>>20, err)
	}
	_ = unix.Madvise(g.memory, unix.MADV_HUGEPAGE) // only faster
	g.values = unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(g.memory))), g.n*(g.n+g.m))
	b := kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: float32(gamma)}})
	for _, x := range train {
		b.Append(x.X)
	}
	block := make([]float32, gramBlock*g.n)
	var idx []int32
	for i := 0; i < g.n; i += len(idx) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		idx = idx[:0]
		for k := i; k < min(i+gramBlock, g.n); k++ {
			idx = append(idx, int32(k))
		}
		// From the diagonal on; values are symmetric to the last bit.
		w := g.n - i
		b.Between(block, w, idx, i, g.n)
		for r := range idx {
			copy(g.Values(i + r)[i:], block[r*w:(r+1)*w])
		}
		for j := i + len(idx); j < g.n; j++ {
			row := g.Values(j)[i : i+len(idx)]
			for r := range row {
				row[r] = block[r*w+j-i]
			}
		}
	}
	var xs []stream.Vec
	for i := 0; i < g.m; i += len(xs) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		xs = xs[:0]
		for _, x := range test[i:min(i+gramBlock, g.m)] {
			xs = append(xs, x.X)
		}
		b.Block(g.values[(g.n+i)*g.n:], g.n, xs, 0, g.n)
	}
	return g, nil
}

// checkGram refuses learners with another kernel than that of -gram.
func (c *config) checkGram(k contender) error {
	if !c.gram {
		return nil
	}
	if c.gamma == 0 {
		return errors.New("-gram needs -set gamma=")
	}
	g, err := strconv.ParseFloat(k.options["gamma"], 64)
	if kind := k.options["kernel"]; kind != "" && kind != "rbf" || err != nil || g != c.gamma {
		return fmt.Errorf("-gram has another kernel than %s", k.label)
	}
	return nil
}

// numbered returns the examples with their numbers from first on in place of
// features.
func (s set) numbered(first int) set {
	out := make(set, len(s))
	for i, x := range s {
		y := *x
		y.X = stream.Vec{Val: []float32{float32(first + i)}}
		out[i] = &y
	}
	return out
}
