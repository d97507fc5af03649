package kernel

import (
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// csr is a list of sparse rows. Kernel values in this layout are computed from
// inner products and norms with float64 sums. Their cancellation hides no difference
// that float32 features can express.
type csr struct {
	dim  int
	rows []extent // position of each row in idx and val, in any order and with gaps
	idx  []int32
	val  []float32
	used int       // number of elements of idx that belong to rows
	norm []float64 // of each row: squared, or the l1 norm
	l1   bool      // l1 norms and distances: of a Laplacian kernel

	post postings

	parts []part // rows of other lists, instead of its own
}

// extent is a half-open interval.
type extent struct{ from, to int32 }

// gapShare bounds the gaps left by replaced rows: at most one element per gapShare
// used ones.
const gapShare = 4

func newCSR(f Func, dim int) *csr {
	return &csr{dim: dim, l1: f.Kind == vec.Laplacian, post: postings{}}
}

func (c *csr) len() int {
	if n := len(c.parts); n > 0 {
		return c.parts[n-1].to
	}
	return len(c.rows)
}

func (c *csr) row(i int) stream.Vec {
	for _, p := range c.parts {
		if i < p.to {
			return p.of.row(int(p.pick[i-p.from]))
		}
	}
	return c.at(c.rows[i])
}

func (c *csr) at(e extent) stream.Vec {
	return stream.Vec{Idx: c.idx[e.from:e.to:e.to], Val: c.val[e.from:e.to:e.to]}
}

// nonzeros returns the number of elements in rows.
func (c *csr) nonzeros() int {
	n := c.used
	for _, p := range c.parts {
		for _, i := range p.pick {
			n += len(p.of.row(int(i)).Val)
		}
	}
	return n
}

// write appends x after all rows and returns its position.
func (c *csr) write(x stream.Vec) extent {
	from := int32(len(c.idx))
	c.idx, c.val = nonzeros(c.idx, c.val, x)
	c.used += len(c.idx) - int(from)
	return extent{from, int32(len(c.idx))}
}

func (c *csr) append(x stream.Vec) int {
	i := len(c.rows)
	c.rows = append(c.rows, c.write(x))
	x = c.row(i)
	c.norm = append(c.norm, c.normOf(x))
	c.post.add(int32(i), x)
	return i
}

func (c *csr) truncate(n int) {
	for i := c.len() - 1; i >= n; i-- {
		c.post.remove(int32(i), c.row(i))
		c.used -= int(c.rows[i].to - c.rows[i].from)
	}
	c.rows, c.norm = c.rows[:n], c.norm[:n]
	last := int32(0)
	for _, e := range c.rows {
		last = max(last, e.to)
	}
	c.idx, c.val = c.idx[:last], c.val[:last]
}

// set replaces row i.
func (c *csr) set(i int, x stream.Vec) {
	old := c.rows[i]
	c.post.remove(int32(i), c.at(old))
	c.used -= int(old.to - old.from)
	c.rows[i] = c.write(x)
	x = c.row(i)
	c.norm[i] = c.normOf(x)
	c.post.add(int32(i), x)
	// The new row is appended, and the old one leaves a gap. Close the gaps once they
	// are a quarter of the elements in use: amortised, each element is moved a constant
	// number of times.
	if len(c.idx)-c.used > c.used/gapShare {
		c.close()
	}
}

// close copies the rows in order, without gaps.
func (c *csr) close() {
	idx, val := make([]int32, 0, c.used+c.used/gapShare), make([]float32, 0, c.used+c.used/gapShare)
	for i, e := range c.rows {
		from := int32(len(idx))
		idx, val = append(idx, c.idx[e.from:e.to]...), append(val, c.val[e.from:e.to]...)
		c.rows[i] = extent{from, int32(len(idx))}
	}
	c.idx, c.val = idx, val
}

// ordered is a list of consecutive sparse rows, as on the wire.
type ordered struct {
	end []int32 // end[i] is the end of row i in idx and val
	idx []int32
	val []float32
}

func (o *ordered) append(x stream.Vec) {
	o.idx, o.val = nonzeros(o.idx, o.val, x)
	o.end = append(o.end, int32(len(o.idx)))
}

// nonzeros appends the features of x, or only the nonzero ones of a dense x. Negative
// zero counts as nonzero, since its bits differ from 0.
func nonzeros(idx []int32, val []float32, x stream.Vec) ([]int32, []float32) {
	if x.Idx != nil {
		return append(idx, x.Idx...), append(val, x.Val...)
	}
	for j, v := range x.Val {
		if math.Float32bits(v) != 0 {
			idx, val = append(idx, int32(j)), append(val, v)
		}
	}
	return idx, val
}

func (o *ordered) row(i int) stream.Vec {
	a, b := int32(0), o.end[i]
	if i > 0 {
		a = o.end[i-1]
	}
	return stream.Vec{Idx: o.idx[a:b:b], Val: o.val[a:b:b]}
}

var errRows = errors.New("rows are not in order")

// check validates untrusted rows of dim features.
func (o *ordered) check(n, dim int) error {
	if len(o.end) != n || len(o.idx) != len(o.val) {
		return errRows
	}
	last := int32(0)
	for _, e := range o.end {
		if e < last || int(e) > len(o.idx) {
			return errRows
		}
		for k := last; k < e; k++ {
			if o.idx[k] < 0 || int(o.idx[k]) >= dim || k > last && o.idx[k] <= o.idx[k-1] {
				return errRows
			}
		}
		last = e
	}
	if int(last) != len(o.idx) {
		return errRows
	}
	return nil
}

func (c *csr) normOf(x stream.Vec) float64 {
	if c.l1 {
		return l1Norm(x)
	}
	return squaredNorm(x)
}

func l1Norm(x stream.Vec) (s float64) {
	for _, v := range x.Val {
		s += math.Abs(float64(v))
	}
	return s
}

func squaredNorm(x stream.Vec) float64 {
	var s float64
	for _, v := range x.Val {
		s += float64(v) * float64(v) // exact product of two float32
	}
	return s
}
