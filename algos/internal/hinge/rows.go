package hinge

import (
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// pageLen is the number of columns in a page of a cached row. A page of a
// vector that rows are added to (16 KiB of float64) stays in the first-level
// cache while the pages of many rows stream past it.
const pageLen = 2048

// groupLen is the number of rows handled together.
const groupLen = 64

// Rows delivers rows of the kernel matrix over the points of a Basis, keeping
// those used last in a cache of bounded size. What it delivers does not depend
// on what is cached.
type Rows struct {
	basis  *kernel.Basis
	limit  int // pages the cache may hold
	pages  int // pages held
	free   [][]float32
	slots  []slot
	idle   []int32 // slots without a row
	where  []int32 // where[i] is point i's slot plus 1, or 0
	head   int32   // most recently used slot, -1 if none
	tail   int32   // least recently used
	sparse bool    // the layout that the cached values were computed in

	evals int64 // kernel values computed
	hits  int64 // kernel values taken from the cache

	block []float32 // scratch: groupLen × pageLen
	in    []member  // the rows of the present group
	miss  []int32   // those of them that lack columns of the present page
}

// member is a row of a group: its slot, or -1, and the first column that has
// to be computed.
type member struct {
	slot int32
	from int
}

// slot is a cached row: the first cols columns of the row of point.
type slot struct {
	point      int32
	cols       int
	prev, next int32
	page       [][]float32
	pinned     bool
}

// NewRows returns an empty cache of at most bytes bytes over b.
func NewRows(b *kernel.Basis, bytes int) *Rows {
	return &Rows{basis: b, limit: bytes / (4 * pageLen), head: -1, tail: -1, sparse: b.Sparse()}
}

// Evals returns the number of kernel values computed, Hits the number taken
// from the cache instead.
func (c *Rows) Evals() int64 { return c.evals }

// Hits returns the number of kernel values that the cache supplied.
func (c *Rows) Hits() int64 { return c.hits }

// Restart forgets all rows and serves b from now on.
func (c *Rows) Restart(b *kernel.Basis) {
	c.clear()
	c.basis, c.sparse = b, b.Sparse()
}

func (c *Rows) clear() {
	for c.head >= 0 {
		c.drop(c.head)
	}
}

// Truncate forgets the columns and rows from m on.
func (c *Rows) Truncate(m int) {
	for i := m; i < len(c.where); i++ {
		if s := c.where[i] - 1; s >= 0 {
			c.drop(s)
		}
	}
	for s := c.head; s >= 0; s = c.slots[s].next {
		sl := &c.slots[s]
		sl.cols = min(sl.cols, m)
		for keep := (m + pageLen - 1) / pageLen; len(sl.page) > keep; {
			c.free = append(c.free, sl.page[len(sl.page)-1])
			sl.page = sl.page[:len(sl.page)-1]
		}
	}
}

// sync forgets all rows if the layout of the points, on which the last bits of
// the values depend, has changed.
func (c *Rows) sync() {
	if s := c.basis.Sparse(); s != c.sparse {
		c.clear()
		c.sparse = s
	}
	if n := c.basis.Len(); n > len(c.where) {
		c.where = append(c.where, make([]int32, n-len(c.where))...)
	}
	if c.block == nil {
		c.block = make([]float32, groupLen*pageLen)
	}
}

// Each calls visit(r, at, k) with k[j] = K(idx[r], at+j), in pieces that cover
// the columns from ≤ at+j < to of every row; for any one column the calls come
// in order of r. Rows that the cache holds up to column from or further are
// extended in it; others are taken into it if from is 0 and keep is set.
func (c *Rows) Each(idx []int32, from, to int, keep bool, visit func(r, at int, k []float32)) {
	c.sync()
	for base := 0; base < len(idx); base += groupLen {
		c.group(idx[base:min(len(idx), base+groupLen)], base, from, to, keep && from == 0, visit)
	}
}

func (c *Rows) group(idx []int32, base, from, to int, keep bool, visit func(r, at int, k []float32)) {
	c.admit(idx, from, to, keep)
	for lo := from / pageLen * pageLen; lo < to; lo += pageLen {
		a, b := max(lo, from), min(to, lo+pageLen)
		c.fill(idx, lo, a, b)
		for r := range c.in {
			k := c.block[r*pageLen : (r+1)*pageLen]
			if c.in[r].slot >= 0 {
				k = c.slots[c.in[r].slot].page[lo/pageLen]
			}
			visit(base+r, a, k[a-lo:b-lo])
		}
	}
	for _, g := range c.in {
		if g.slot >= 0 {
			c.slots[g.slot].pinned = false
		}
	}
}

// admit looks the rows of a group up and makes room for those to be kept.
func (c *Rows) admit(idx []int32, from, to int, keep bool) {
	c.in = c.in[:0]
	for _, i := range idx {
		s := c.where[i] - 1
		if s < 0 && keep && c.limit*pageLen >= to {
			s = c.add(i)
		}
		if s >= 0 && c.slots[s].cols < from {
			c.drop(s)
			s = -1
		}
		if s >= 0 {
			c.touch(s)
			c.slots[s].pinned = true
		}
		c.in = append(c.in, member{slot: s})
	}
	for r := range c.in {
		if s := c.in[r].slot; s >= 0 && !c.reserve(s, to) {
			c.drop(s)
			c.in[r].slot = -1
		}
	}
}

// fill sees to it that the columns a ≤ j < b, all of the page that begins at
// column lo, of every row of the group are in its page or, where it is not
// kept, in the block.
func (c *Rows) fill(idx []int32, lo, a, b int) {
	c.miss = c.miss[:0]
	for r := range c.in {
		g := &c.in[r]
		g.from = a
		if g.slot >= 0 {
			g.from = max(a, c.slots[g.slot].cols)
		}
		c.hits += int64(min(g.from, b) - a)
		if g.from < b {
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
		c.evals += int64(n * (b - from))
		for i := r; i < r+n; i++ {
			if s := c.in[i].slot; s >= 0 {
				copy(c.slots[s].page[lo/pageLen][from-lo:b-lo], c.block[i*pageLen+from-lo:])
				c.slots[s].cols = b
			}
		}
		miss = miss[n:]
	}
}

// reserve makes room for the columns below to of slot s.
func (c *Rows) reserve(s int32, to int) bool {
	for len(c.slots[s].page)*pageLen < to {
		p := c.take()
		if p == nil {
			return false
		}
		c.slots[s].page = append(c.slots[s].page, p)
	}
	return true
}

// take returns a page, if need be that of the row that was used longest ago.
func (c *Rows) take() []float32 {
	for {
		if n := len(c.free); n > 0 {
			p := c.free[n-1]
			c.free = c.free[:n-1]
			return p
		}
		if c.pages < c.limit {
			c.pages++
			return make([]float32, pageLen)
		}
		if c.tail < 0 || c.slots[c.tail].pinned {
			return nil
		}
		c.drop(c.tail)
	}
}

func (c *Rows) add(point int32) int32 {
	var s int32
	if n := len(c.idle); n > 0 {
		s = c.idle[n-1]
		c.idle = c.idle[:n-1]
	} else {
		s = int32(len(c.slots))
		c.slots = append(c.slots, slot{})
	}
	c.slots[s].point, c.slots[s].cols = point, 0
	c.where[point] = s + 1
	c.link(s)
	return s
}

func (c *Rows) drop(s int32) {
	sl := &c.slots[s]
	c.unlink(s)
	c.free = append(c.free, sl.page...)
	sl.page, sl.cols, sl.pinned = sl.page[:0], 0, false
	c.where[sl.point] = 0
	c.idle = append(c.idle, s)
}

func (c *Rows) touch(s int32) {
	if c.head != s {
		c.unlink(s)
		c.link(s)
	}
}

func (c *Rows) link(s int32) {
	sl := &c.slots[s]
	sl.prev, sl.next = -1, c.head
	if c.head >= 0 {
		c.slots[c.head].prev = s
	}
	c.head = s
	if c.tail < 0 {
		c.tail = s
	}
}

func (c *Rows) unlink(s int32) {
	sl := &c.slots[s]
	if sl.prev >= 0 {
		c.slots[sl.prev].next = sl.next
	} else {
		c.head = sl.next
	}
	if sl.next >= 0 {
		c.slots[sl.next].prev = sl.prev
	} else {
		c.tail = sl.prev
	}
}
