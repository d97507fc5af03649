package rows

// pageLen is the number of columns that Each hands out at a time. Such a piece of
// a vector that rows are added to (16 KiB of float64) stays in the first-level
// cache while the pieces of many rows stream past it.
const pageLen = 2048

// groupLen is the number of rows handled together.
const groupLen = 64

// member is a row of a group: its slot, or −1, and the first column that has to
// be computed.
type member struct {
	slot int32
	from int
}

// Each calls visit(r, at, k) with k[j] = K(idx[r], at+j), in pieces that cover
// the columns from ≤ at+j < to of every row; for any one column the calls come
// in order of r. Rows that the cache holds up to column from or further are
// extended in it; others are taken into it if from is 0 and keep is set.
func (c *Cache) Each(idx []int32, from, to int, keep bool, visit func(r, at int, k []float32)) {
	c.Sync()
	c.scratch(groupLen * pageLen)
	for base := 0; base < len(idx); base += groupLen {
		c.group(idx[base:min(len(idx), base+groupLen)], base, from, to, keep && from == 0, visit)
	}
}

func (c *Cache) group(idx []int32, base, from, to int, keep bool, visit func(r, at int, k []float32)) {
	c.admit(idx, from, keep)
	for lo := from / pageLen * pageLen; lo < to; lo += pageLen {
		a, b := max(lo, from), min(to, lo+pageLen)
		c.fill(idx, lo, a, b, to)
		for r, m := range c.in {
			if m.slot >= 0 {
				visit(base+r, a, c.slots[m.slot].k[a:b])
			} else {
				visit(base+r, a, c.block[r*pageLen:][a-lo:b-lo])
			}
		}
	}
	for _, m := range c.in {
		if m.slot >= 0 {
			c.slots[m.slot].pinned = false
		}
	}
}

// admit looks the rows of a group up and makes room for those to be kept.
func (c *Cache) admit(idx []int32, from int, keep bool) {
	c.in = c.in[:0]
	for _, i := range idx {
		s := c.where[i] - 1
		if s >= 0 && len(c.slots[s].k) < from {
			c.drop(s)
			s = -1
		}
		if s < 0 && keep {
			s = c.add(i)
		}
		if s >= 0 {
			c.touch(s)
			c.slots[s].pinned = true
		}
		c.in = append(c.in, member{slot: s})
	}
}

// fill sees to it that the columns a ≤ j < b, all of the page that begins at
// column lo, of every row of the group are in its row or, where that is not
// kept, in the block. Rows are going to have columns up to to.
func (c *Cache) fill(idx []int32, lo, a, b, to int) {
	c.miss = c.miss[:0]
	for r := range c.in {
		m := &c.in[r]
		m.from = a
		if m.slot >= 0 {
			m.from = max(a, len(c.slots[m.slot].k))
		}
		if m.from < b {
			c.miss = append(c.miss, int32(r))
		}
	}
	for miss := c.miss; len(miss) > 0; {
		// Rows that lack the same columns and are neighbours in the block are
		// computed in one call.
		r := int(miss[0])
		from := c.in[r].from
		n := 1
		for n < len(miss) && int(miss[n]) == r+n && c.in[r+n].from == from {
			n++
		}
		c.basis.Between(c.block[r*pageLen+from-lo:], pageLen, idx[r:r+n], from, b)
		c.Evals += int64(n * (b - from))
		for i := r; i < r+n; i++ {
			if s := c.in[i].slot; s >= 0 {
				e := &c.slots[s]
				c.resize(e, to)
				e.k = e.k[:b]
				copy(e.k[from:], c.block[i*pageLen+from-lo:])
			}
		}
		miss = miss[n:]
	}
}
