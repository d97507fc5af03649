package rows

import (
	"sync"

	"github.com/streamsvm/streamsvm/internal/par"
)

// pageLen is the number of columns that Each passes to visit at a time. Callers add
// rows to a vector. A piece of pageLen float64 (16 KiB) of it stays in the first-level
// cache while the pieces of many rows stream past.
const pageLen = 2048

// groupLen is the number of rows handled together.
const groupLen = 64

// member is a row of a group: its slot, or −1 if it is not cached, and the first column
// that must be computed.
type member struct {
	slot int32
	from int
}

// Each calls visit(r, at, k) with k[j] = K(idx[r], at+j), in pieces that cover the
// columns from ≤ at+j < to of every row. For any one column the calls come in order
// of r; calls for different columns may be concurrent. Cached rows that reach
// column from are extended. Others are cached if from is 0 and keep is set.
func (c *Cache) Each(idx []int32, from, to int, keep bool, visit func(r, at int, k []float32)) {
	c.Sync()
	if from >= to {
		return
	}
	// Mark the rows of this call as recently used, so that others are evicted first.
	c.call++
	for _, i := range idx {
		if s := c.where[i] - 1; s >= 0 {
			c.touch(s)
			c.slots[s].call = c.call
		}
	}
	for c.held > c.limit() {
		c.drop(c.tail)
	}
	for base := 0; base < len(idx); base += groupLen {
		c.group(idx[base:min(len(idx), base+groupLen)], base, from, to, keep && from == 0, visit)
	}
}

func (c *Cache) group(idx []int32, base, from, to int, keep bool, visit func(r, at int, k []float32)) {
	c.admit(idx, from, to, keep)
	first := from / pageLen * pageLen
	work := float64(len(idx)*(to-from)) * visitWork
	for _, m := range c.in {
		if m.from < to {
			work += c.basis.Work(to - m.from)
		}
	}
	par.Split(to-first, pageLen, work, func(lo, hi int) {
		p := pages.Get().(*page)
		defer pages.Put(p)
		for lo += first; lo < first+hi; lo += pageLen {
			a, b := max(lo, from), min(to, lo+pageLen)
			c.fill(p, idx, lo, a, b)
			for r, m := range c.in {
				if m.slot >= 0 {
					visit(base+r, a, c.slots[m.slot].k[a:b])
				} else {
					visit(base+r, a, p.block[r*pageLen:][a-lo:b-lo])
				}
			}
		}
	})
	for _, m := range c.in {
		c.Evals += int64(max(0, to-m.from))
	}
}

// visitWork is roughly the time that visit takes per value, in nanoseconds.
const visitWork = 0.2

// page is scratch memory for the pages of a group.
type page struct {
	block []float32 // of kernel values, in rows of pageLen
	miss  []int32   // rows that lack columns of a page
	rows  []float32 // scratch of Basis.Among
}

var pages = sync.Pool{New: func() any { return &page{block: make([]float32, groupLen*pageLen)} }}

// admit looks up the rows of a group. It makes room for the rows to keep, up to column
// to.
func (c *Cache) admit(idx []int32, from, to int, keep bool) {
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
		c.in = append(c.in, member{slot: s, from: from})
	}
	for r := range c.in {
		m := &c.in[r]
		if m.slot < 0 {
			continue
		}
		e := &c.slots[m.slot]
		m.from = max(from, len(e.k))
		if m.from < to {
			c.resize(e, to)
		}
	}
}

// fill computes the columns a ≤ j < b, all in the page that starts at column lo, of
// every row of the group that lacks them: into the cached row, or into the block if
// the row is not kept.
func (c *Cache) fill(p *page, idx []int32, lo, a, b int) {
	p.miss = p.miss[:0]
	for r, m := range c.in {
		if m.from < b {
			p.miss = append(p.miss, int32(r))
		}
	}
	for miss := p.miss; len(miss) > 0; {
		// Rows that lack the same columns and are adjacent in the block are
		// computed in one call.
		r := int(miss[0])
		from := max(a, c.in[r].from)
		n := 1
		for n < len(miss) && int(miss[n]) == r+n && max(a, c.in[r+n].from) == from {
			n++
		}
		p.rows = c.basis.Among(p.rows, p.block[r*pageLen+from-lo:], pageLen, idx[r:r+n], from, b)
		for i := r; i < r+n; i++ {
			if s := c.in[i].slot; s >= 0 {
				copy(c.slots[s].k[from:b], p.block[i*pageLen+from-lo:])
			}
		}
		miss = miss[n:]
	}
}
