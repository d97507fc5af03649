package kernel

// Part is a subset of the points of a Basis.
type Part struct {
	Basis *Basis
	Idx   []int32 // ascending
}

// part is a subset of the rows of a csr. They are rows from ≤ i < to of the combined
// list.
type part struct {
	of       *csr
	pick     []int32
	from, to int
}

// Pick sets b to the points of the parts, one part after the other, in the layout
// of the first part, reusing b's memory. It is valid until one of the parts changes:
// sparse rows are not copied, because building their inverted lists takes longer than
// a pass over them.
func (b *Basis) Pick(parts ...Part) {
	sparse, dim := true, 0
	for _, p := range parts {
		sparse = sparse && p.Basis.rows != nil && p.Basis.rows.parts == nil || len(p.Idx) == 0
		dim = max(dim, p.Basis.Dim())
	}
	first := parts[0].Basis
	if !sparse || first.rows == nil {
		b.Select(first, parts[0].Idx)
		for _, p := range parts[1:] {
			b.appendFrom(p)
		}
		return
	}
	c, n := newCSR(first.Func, dim), 0
	for _, p := range parts {
		if len(p.Idx) > 0 {
			c.parts = append(c.parts, part{p.Basis.rows, p.Idx, n, n + len(p.Idx)})
			n += len(p.Idx)
		}
	}
	b.Func, b.panels, b.rows = first.Func, nil, c
}

// appendFrom appends the points of p.
func (b *Basis) appendFrom(p Part) {
	if b.panels != nil && p.Basis.panels != nil && b.panels.Dim() == p.Basis.panels.Dim() {
		b.panels.AppendFrom(p.Basis.panels, p.Idx)
		return
	}
	for _, i := range p.Idx {
		b.Append(p.Basis.Row(int(i)))
	}
}

// own copies rows that belong to other lists.
func (b *Basis) own() {
	if b.rows == nil || b.rows.parts == nil {
		return
	}
	c := newCSR(b.Func, b.rows.dim)
	for i := range b.rows.len() {
		c.append(b.rows.row(i))
	}
	b.rows = c
}
