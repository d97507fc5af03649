package kernel

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// posting says that a feature of a row has a value.
type posting struct {
	row int32
	val float32
}

// postings lists, for each feature, the rows that have it, in ascending order.
// Inner products with all rows then cost as many operations as there are
// features in common, which for sparse data is a small part of what the rows
// hold. It is a map because an open feature space may have any index.
type postings map[int32]*rowList

// rowList is the list of a feature. at[k] is where the rows from k·stride on
// begin in it, as far as there are any.
type rowList struct {
	all []posting
	at  []int32
}

// stride is the number of rows between the entries of at: 4 bytes for every
// stride rows of a feature save most of the search in its list.
const stride = 1024

func (p postings) add(row int32, x stream.Vec) {
	for k, g := range x.Idx {
		l := p[g]
		if l == nil {
			l = new(rowList)
			p[g] = l
		}
		section := int(row) / stride
		l.at = l.at[:min(len(l.at), section+1)] // rows behind this one have gone
		for len(l.at) <= section {
			l.at = append(l.at, int32(len(l.all)))
		}
		l.all = append(l.all, posting{row, x.Val[k]})
	}
}

// remove takes the last row out.
func (p postings) remove(x stream.Vec) {
	for _, g := range x.Idx {
		l := p[g]
		l.all = l.all[:len(l.all)-1]
	}
}

// from returns the part of the list with the rows from there on.
func (l *rowList) from(row int) []posting {
	k := row / stride
	if k >= len(l.at) {
		return nil
	}
	lo, hi := int(l.at[k]), len(l.all)
	if k+1 < len(l.at) {
		hi = int(l.at[k+1])
	}
	if row%stride != 0 {
		n, _ := slices.BinarySearchFunc(l.all[lo:hi], int32(row), func(e posting, row int32) int { return int(e.row) - int(row) })
		lo += n
	}
	return l.all[lo:]
}

// dots adds Σ_g x_g z_g to dst[j] for each row z = from+j, feature by feature in
// ascending order: the order in which the row itself would be summed.
func (p postings) dots(dst []float64, x stream.Vec, from int) {
	end := int32(from + len(dst))
	for k, v := range x.Val {
		if v == 0 {
			continue
		}
		g := int32(k)
		if x.Idx != nil {
			g = x.Idx[k]
		}
		list := p[g]
		if list == nil {
			continue
		}
		xv := float64(v)
		for _, e := range list.from(from) {
			if e.row >= end {
				break
			}
			dst[e.row-int32(from)] += xv * float64(e.val) // exact product
		}
	}
}

// overlapFactor is how many dense features cost as much as one feature in
// common.
const overlapFactor = 20

// SparsePays reports whether kernel values between vectors like xs are cheaper
// in the sparse layout: whether few features of many are in common to two of
// them.
func SparsePays(f Func, xs []stream.Vec) bool {
	if f.Kind == vec.Laplacian || len(xs) == 0 {
		return false
	}
	dim := 0
	count := map[int32]int{}
	common := 0 // Σ_g count_g², without going through the map
	for _, x := range xs {
		dim = max(dim, x.Dim())
		for k, v := range x.Val {
			if v == 0 {
				continue
			}
			g := int32(k)
			if x.Idx != nil {
				g = x.Idx[k]
			}
			common += 2*count[g] + 1
			count[g]++
		}
	}
	overlap := float64(common) / (float64(len(xs)) * float64(len(xs)))
	return float64(dim) > overlapFactor*(1+overlap)
}

// NewSparse returns an empty Basis that keeps its points in sparse rows from
// the start.
func NewSparse(f Func) *Basis { return &Basis{Func: f, rows: &csr{post: postings{}}} }

// kernelRow sets dst[j] = K(x, row from+j) + Bias.
func (c *csr) kernelRow(dst []float32, f Func, x stream.Vec, from int) {
	if f.Kind == vec.Laplacian {
		c.distances(dst, x, from)
	} else {
		sq := squaredNorm(x)
		var dots [1024]float64
		for j := 0; j < len(dst); j += len(dots) {
			n := min(len(dots), len(dst)-j)
			d := dots[:n]
			clear(d)
			c.post.dots(d, x, from+j)
			out := dst[j:][:len(d)]
			if f.Kind != vec.RBF {
				for i, v := range d {
					out[i] = float32(v)
				}
				continue
			}
			for i, v := range c.sq[from+j:][:len(d)] {
				// A comparison and no max, which would ask for NaN as well.
				v = sq + v - 2*d[i]
				if v < 0 {
					v = 0
				}
				out[i] = float32(v)
			}
		}
	}
	f.Kernel.Apply(dst)
	if f.Bias != 0 {
		vec.Shift(dst, f.Bias)
	}
}

// distances sets dst[j] to the l1 distance of x from row from+j.
func (c *csr) distances(dst []float32, x stream.Vec, from int) {
	dense := make([]float32, max(c.dim, x.Dim()))
	x.Dense(dense)
	var l1 float64
	for _, v := range x.Val {
		l1 += math.Abs(float64(v))
	}
	for j := range dst {
		a, b := c.start(from+j), c.end[from+j]
		// |x−z| over z's features, plus |x| over the others.
		d := l1
		for k, g := range c.idx[a:b] {
			xv := float64(dense[g])
			d += math.Abs(xv-float64(c.val[int(a)+k])) - math.Abs(xv)
		}
		dst[j] = float32(max(d, 0))
	}
}
