package kernel

import (
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/stream"
)

// csr is a list of sparse rows in compressed form. Kernel values in this
// layout use the dot form with float64 sums, in which nothing cancels that
// float32 features could have told apart.
type csr struct {
	dim int
	end []int32 // end[i] is where row i ends in idx and val
	idx []int32
	val []float32
	sq  []float64 // squared norm of each row

	post postings // nil where no kernel values are wanted
}

func (c *csr) len() int { return len(c.end) }

func (c *csr) start(i int) int32 {
	if i == 0 {
		return 0
	}
	return c.end[i-1]
}

func (c *csr) row(i int) stream.Vec {
	a, b := c.start(i), c.end[i]
	return stream.Vec{Idx: c.idx[a:b:b], Val: c.val[a:b:b]}
}

func (c *csr) append(x stream.Vec) int {
	if x.Idx == nil {
		return c.appendNonzero(x.Val)
	}
	c.idx = append(c.idx, x.Idx...)
	c.val = append(c.val, x.Val...)
	return c.close()
}

func (c *csr) appendNonzero(row []float32) int {
	for j, v := range row {
		// Negative zero is kept: it is a different bit pattern.
		if math.Float32bits(v) != 0 {
			c.idx = append(c.idx, int32(j))
			c.val = append(c.val, v)
		}
	}
	return c.close()
}

func (c *csr) close() int {
	c.end = append(c.end, int32(len(c.idx)))
	i := len(c.end) - 1
	c.sq = append(c.sq, squaredNorm(c.row(i)))
	if c.post != nil {
		c.post.add(int32(i), c.row(i))
	}
	return i
}

func (c *csr) norms() {
	c.sq, c.post = make([]float64, 0, len(c.end)), postings{}
	for i := range c.end {
		c.sq = append(c.sq, squaredNorm(c.row(i)))
		c.post.add(int32(i), c.row(i))
	}
}

func (c *csr) truncate(n int) {
	for i := c.len() - 1; i >= n && c.post != nil; i-- {
		c.post.remove(c.row(i))
	}
	last := int32(0)
	if n > 0 {
		last = c.end[n-1]
	}
	c.end, c.sq, c.idx, c.val = c.end[:n], c.sq[:n], c.idx[:last], c.val[:last]
}

// set replaces row i; rows behind it move.
func (c *csr) set(i int, x stream.Vec) {
	tail := csr{dim: c.dim}
	for j := i + 1; j < c.len(); j++ {
		tail.append(c.row(j))
	}
	c.truncate(i)
	c.append(x)
	for j := range tail.len() {
		c.append(tail.row(j))
	}
}

var errRows = errors.New("rows are not in order")

// check validates rows that came from outside.
func (c *csr) check(n int) error {
	if len(c.end) != n || len(c.idx) != len(c.val) {
		return errRows
	}
	last := int32(0)
	for _, e := range c.end {
		if e < last || int(e) > len(c.idx) {
			return errRows
		}
		for k := last; k < e; k++ {
			if c.idx[k] < 0 || int(c.idx[k]) >= c.dim || k > last && c.idx[k] <= c.idx[k-1] {
				return errRows
			}
		}
		last = e
	}
	if int(last) != len(c.idx) {
		return errRows
	}
	return nil
}

func squaredNorm(x stream.Vec) float64 {
	var s float64
	for _, v := range x.Val {
		s += float64(v) * float64(v) // exact product of two float32
	}
	return s
}
