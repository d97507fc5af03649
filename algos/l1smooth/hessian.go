package l1smooth

import (
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// hessian sets H = Σ h_i x_i x_i^T over the active coordinates, in ascending order,
// leaving out rows with h_i ≤ least.
func (d *data) hessian(H linear.Lower, active []int32, h []float64, least float64) {
	d.at = resize(d.at, d.size())
	for j := range d.at {
		d.at[j] = -1
	}
	for k, j := range active {
		d.at[j] = int32(k)
	}
	n, work := len(active), 0
	for k := range d.blocks {
		work += d.blocks[k].pairs
	}
	groups := max(1, min(maxSquares, work/(4*len(H)+1), len(d.blocks)))
	d.run(groups, work, func(g int) {
		part := H
		if g > 0 {
			d.squares[g] = resize(d.squares[g], len(H))
			part = d.squares[g]
		}
		clear(part)
		lo, hi := d.span(g, groups)
		pos, val := make([]int32, 0, n), make([]float64, 0, n)
		var cols []float64
		for k := lo; k < hi; k++ {
			b, at := &d.blocks[k], k*blockRows
			h := h[at : at+len(b.y)]
			if b.width > 0 {
				cols = resize(cols, n*blockRows)
				b.outerDense(part, active, h, least, d.bias, cols)
			} else {
				b.outer(part, d.at, h, least, d.bias, pos, val)
			}
		}
	})
	for g := 1; g < groups; g++ {
		vec.Axpy64(1, d.squares[g][:len(H)], H)
	}
}

// outer adds h_i x_i x_i^T for the rows of a sparse block. pos and val have room
// for a row.
func (b *block) outer(H linear.Lower, at []int32, h []float64, least, bias float64, pos []int32, val []float64) {
	constant, at := at[0], at[1:]
	ones := b.val == nil && (constant < 0 || bias == 1)
	for i := range b.y {
		if !(h[i] > least) {
			continue
		}
		pos, val = pos[:0], val[:0]
		if constant >= 0 {
			pos, val = append(pos, constant), append(val, bias)
		}
		idx, values := b.row(i)
		if ones {
			for _, j := range idx {
				if k := at[j]; k >= 0 {
					pos = append(pos, k)
				}
			}
			for a, r := range pos {
				row := H.Row(int(r))
				for _, c := range pos[:a+1] {
					row[c] += h[i]
				}
			}
			continue
		}
		for k, j := range idx {
			if r := at[j]; r >= 0 {
				v := 1.0
				if values != nil {
					v = float64(values[k])
				}
				pos, val = append(pos, r), append(val, v)
			}
		}
		for a, r := range pos {
			row, hv := H.Row(int(r)), float64(h[i]*val[a])
			for k, c := range pos[:a+1] {
				row[c] += float64(hv * val[k])
			}
		}
	}
}

// outerDense is outer for a dense block: the rows that count become columns of an
//
//	active|-by-m matrix, whose rows are multiplied with each other.
func (b *block) outerDense(H linear.Lower, active []int32, h []float64, least, bias float64, cols []float64) {
	rows := make([]int, 0, blockRows)
	for i := range b.y {
		if h[i] > least {
			rows = append(rows, i)
		}
	}
	if len(rows) == 0 {
		return
	}
	for k, j := range active {
		col := cols[k*blockRows:][:len(rows)]
		for r, i := range rows {
			switch {
			case j == 0:
				col[r] = bias
			case int(j) <= b.width:
				col[r] = float64(b.val[i*b.width+int(j)-1])
			default:
				col[r] = 0
			}
		}
	}
	weighted := make([]float64, len(rows), blockRows)
	for a := range active {
		ca, row := cols[a*blockRows:], H.Row(a)
		for r, i := range rows {
			weighted[r] = float64(h[i] * ca[r])
		}
		for c := range row {
			row[c] += vec.Dot64(weighted, cols[c*blockRows:][:len(rows)])
		}
	}
}
