package kernel

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// posting is the value of a feature in a row.
type posting struct {
	row int32
	val float32
}

// postings is an inverted index: for each feature, the rows that have it, in
// ascending order. Inner products with all rows then take as many operations as
// there are shared features, a small part of the nonzeros. It is a map because an
// open feature space may have any index.
type postings map[int32]*rowList

// rowList has the rows of a feature, as a list or, if many rows have the feature, as a
// column. at[k] is the position in all of the first row ≥ k·stride. at may be shorter
// than the rows require.
type rowList struct {
	all []posting
	at  []int32

	column []float32 // if not nil, the value in each row; 0 in rows without the feature and from the end on
	used   int       // number of rows in the column that have the feature
}

// stride is the number of rows between entries of at. For 4 bytes per stride rows,
// they save most of the search in the list.
const stride = 1024

// A list of at least minColumn rows becomes a column once more than one of columnShare
// rows is in it, and a list again once fewer than one of listShare are: an element of a
// list takes eight times as long as an element of a column.
const (
	minColumn   = 256
	columnShare = 4
	listShare   = 8
)

func (p postings) add(row int32, x stream.Vec) {
	for k, g := range x.Idx {
		if x.Val[k] == 0 {
			continue
		}
		l := p[g]
		if l == nil {
			l = new(rowList)
			p[g] = l
		}
		if l.column != nil && (l.used+1)*listShare <= int(row) {
			l.toList()
		}
		if l.column == nil {
			l.insert(row, x.Val[k])
			if n := len(l.all); n >= minColumn && n*columnShare > int(l.all[n-1].row) {
				l.toColumn()
			}
			continue
		}
		for len(l.column) <= int(row) {
			l.column = append(l.column, 0)
		}
		l.column[row] = x.Val[k]
		l.used++
	}
}

// remove removes a row.
func (p postings) remove(row int32, x stream.Vec) {
	for k, g := range x.Idx {
		if x.Val[k] == 0 {
			continue
		}
		l := p[g]
		switch {
		case l.column == nil:
			i := l.place(int(row))
			l.all = slices.Delete(l.all, i, i+1)
			l.move(int(row)/stride, -1)
		case int(row) == len(l.column)-1:
			l.column = l.column[:row]
			l.used--
		default:
			l.column[row] = 0
			l.used--
		}
		switch {
		case len(l.all)+l.used == 0:
			delete(p, g)
		case l.used*listShare < len(l.column):
			l.toList()
		}
	}
}

// insert adds a row to a list.
func (l *rowList) insert(row int32, v float32) {
	section := int(row) / stride
	for len(l.at) <= section {
		l.at = append(l.at, int32(len(l.all)))
	}
	l.all = slices.Insert(l.all, l.place(int(row)), posting{row, v})
	l.move(section, 1)
}

func (l *rowList) toColumn() {
	n := l.all[len(l.all)-1].row + 1
	c := make([]float32, n, n+n/4)
	for _, e := range l.all {
		c[e.row] = e.val
	}
	*l = rowList{column: c, used: len(l.all)}
}

func (l *rowList) toList() {
	c := l.column
	*l = rowList{}
	for row, v := range c {
		if v != 0 {
			l.insert(int32(row), v)
		}
	}
}

// move shifts the starts of the sections after the given one by d elements.
func (l *rowList) move(section int, d int32) {
	for k := section + 1; k < len(l.at); k++ {
		l.at[k] += d
	}
}

// place returns the position in the list of the first entry whose row is at least row.
func (l *rowList) place(row int) int {
	if n := len(l.all); n == 0 || int(l.all[n-1].row) < row {
		return n
	}
	k := row / stride
	lo, hi := int(l.at[k]), len(l.all)
	if k+1 < len(l.at) {
		hi = int(l.at[k+1])
	}
	if row%stride == 0 {
		return lo
	}
	n, _ := slices.BinarySearchFunc(l.all[lo:hi], int32(row), func(e posting, row int32) int { return int(e.row) - int(row) })
	return lo + n
}

// dots adds Σ_g x_g z_g to dst[j] for each row z = from+j, feature by feature in
// ascending order. A sum over the row itself would use the same order, so both have the
// same bits. With l1 set, min(|x_g|, |z_g|) takes the place of a product if x_g and z_g have the same
// sign, 0 if they have not.
func (p postings) dots(dst []float64, x stream.Vec, from int, l1 bool) {
	end := from + len(dst)
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
		if l1 {
			list.overlap(dst, v, from)
			continue
		}
		xv := float64(v)
		if c := list.column; c != nil {
			c = c[:min(end, len(c))]
			vec.AxpyMixed(xv, c[min(from, len(c)):], dst)
			continue
		}
		for _, e := range list.all[list.place(from):list.place(end)] {
			dst[int(e.row)-from] += xv * float64(e.val) // exact product
		}
	}
}

// overlap adds what v has in common with each row from from on.
func (l *rowList) overlap(dst []float64, v float32, from int) {
	end := from + len(dst)
	if c := l.column; c != nil {
		c = c[:min(end, len(c))]
		vec.Overlap(v, c[min(from, len(c)):], dst)
		return
	}
	// Like signs, numbers have the order of their bits, and the smaller of two integers takes no branch.
	sign := math.Float32bits(v) & (1 << 31)
	most := int32(math.Float32bits(v) ^ sign)
	for _, e := range l.all[l.place(from):l.place(end)] {
		common := max(min(int32(math.Float32bits(e.val)^sign), most), 0)
		dst[int(e.row)-from] += float64(math.Float32frombits(uint32(common)))
	}
}

// overlapFactor is how many dense features cost as much as one shared feature.
const overlapFactor = 20

// SparsePays reports whether the sparse layout is faster for kernel values between
// vectors like xs, which is the case if two of them share few of many features.
func SparsePays(xs []stream.Vec) bool {
	if len(xs) == 0 {
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

// NewSparse returns an empty Basis that uses the sparse layout from the start.
func NewSparse(f Func) *Basis { return &Basis{Func: f, rows: newCSR(f, 0)} }

// kernelRow sets dst[j] = K(x, row from+j) + Bias.
func (c *csr) kernelRow(dst []float32, f Func, x stream.Vec, from int) {
	distance := f.Kind == vec.RBF || f.Kind == vec.Laplacian
	if c.parts != nil {
		for _, p := range c.parts {
			a, b := max(from, p.from), min(from+len(dst), p.to)
			if a < b {
				p.of.sums(dst[a-from:b-from], distance, x, 0, p.pick[a-p.from:b-p.from])
			}
		}
	} else {
		c.sums(dst, distance, x, from, nil)
	}
	f.Kernel.Apply(dst)
	if f.Bias != 0 {
		vec.Shift(dst, f.Bias)
	}
}

// section is the number of rows whose inner products are computed together: 32 KiB
// of sums.
const section = 4 * stride

// sums sets dst[j] to the inner product of x and row from+j or, if pick is not nil,
// row pick[j] (ascending). If distance is set, it is their squared distance instead, or their l1
// distance ‖x‖₁ + ‖z‖₁ − 2 Σ_g min(|x_g|, |z_g|) over features in which they have the same sign.
func (c *csr) sums(dst []float32, distance bool, x stream.Vec, from int, pick []int32) {
	norm := c.normOf(x)
	// Process the rows in sections, feature by feature, so that the sums stay in the
	// first-level cache.
	var dots [section]float64
	for len(dst) > 0 {
		n := min(section, len(dst))
		end := from + n
		if pick != nil {
			// Lists can be entered only at multiples of stride.
			from = int(pick[0]) / stride * stride
			n, _ = slices.BinarySearch(pick[:n], int32(from+section))
			end = int(pick[n-1]) + 1
		}
		d := dots[:end-from]
		clear(d)
		c.post.dots(d, x, from, c.l1)
		out := dst[:n]
		switch {
		case pick != nil:
			for i, j := range pick[:n] {
				v := d[int(j)-from]
				if distance {
					v = distanceOf(norm, c.norm[j], v)
				}
				out[i] = float32(v)
			}
			pick = pick[n:]
		case distance:
			vec.Distances(out, norm, c.norm[from:], d)
		default:
			for i, v := range d {
				out[i] = float32(v)
			}
		}
		dst, from = dst[n:], end
	}
}

// distanceOf returns the squared distance of two points from their squared norms and inner product,
// or their l1 distance; see sums.
func distanceOf(x, z, dot float64) float64 {
	// Not max, which would also test for NaN.
	d := x + z - 2*dot
	if d < 0 {
		return 0
	}
	return d
}
