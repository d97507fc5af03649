// Package rows is a cache of kernel matrix rows, computed on demand over the points
// of a kernel.Basis and evicted least recently used first. The values that it
// returns do not depend on what is cached.
package rows

import (
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// Block is the number of kernel rows computed together. The points then pass
// through the processor's caches once for all of them, which is several times as
// fast as row by row.
const Block = 24

// Cache is an LRU cache of kernel matrix rows over the points of a Basis. It is
// used in one of two ways. Row returns whole rows over points that may be replaced;
// every change of a point must be announced with Changed. Each visits pieces of many
// rows over points that are only appended and truncated.
//
// The set of cached rows is part of the state, so that the number of kernel values
// computed is the same after a restart. The values are not, since they can be
// recomputed bit for bit. A row whose columns have changed since its last use is
// updated at its next use.
type Cache struct {
	// Evals counts the kernel values computed. Callers add the values that they compute
	// themselves.
	Evals int64

	basis  *kernel.Basis
	bytes  int
	sparse bool // layout of the points, which determines the last bits of values

	// The directory of cached rows, a list from most to least recently used.
	slots      []slot
	idle       []int32 // slots without a row
	where      []int32 // where[i] is point i's slot plus 1, or 0
	head, tail int32   // −1 if there is none
	held       int
	call       uint64 // counts the calls of Each

	changed []uint64 // value of now when a point was last appended or replaced
	now     uint64   // counts the rounds of changes
	bits    *bitset  // nil before the first call of Changed

	// Scratch memory.
	block []float32
	in    []member // rows of the current group
}

// slot is a cached row: its first len(k) columns, as they were at tick.
type slot struct {
	point      int32
	prev, next int32
	tick       uint64
	call       uint64    // the last call of Each that used the row
	k          []float32 // nil: not recomputed since a restart
}

// New returns a cache for the rows over b's points. It holds as many rows as fit into
// the given number of bytes, but at least Block rows.
func New(b *kernel.Basis, bytes int) *Cache {
	return &Cache{basis: b, bytes: bytes, sparse: b.Sparse(), head: -1, tail: -1}
}

// Restart drops all rows and continues with b.
func (c *Cache) Restart(b *kernel.Basis) {
	c.clear()
	c.basis, c.sparse = b, b.Sparse()
}

// Tick starts a round of changes: calls of Changed, then a call of Sync. Rows used in
// between count as up to date.
func (c *Cache) Tick() { c.now++ }

// Changed records that point i was appended or replaced.
func (c *Cache) Changed(i int) {
	if c.bits == nil {
		c.bits = newBitset(c.basis.Func)
	}
	for len(c.changed) < c.basis.Len() {
		c.changed = append(c.changed, c.now)
	}
	c.changed[i] = c.now
	c.bits.set(i, c.basis.Row(i))
	c.Sync()
	if c.Has(int32(i)) {
		c.drop(c.where[i] - 1)
	}
}

// Sync ends a round of changes. It drops all rows if the layout of the points has
// changed.
func (c *Cache) Sync() {
	if s := c.basis.Sparse(); s != c.sparse {
		c.sparse = s
		c.clear()
	}
	if n := c.basis.Len(); n > len(c.where) {
		c.where = append(c.where, make([]int32, n-len(c.where))...)
	}
}

// Truncate drops the columns and rows from m on.
func (c *Cache) Truncate(m int) {
	for i := m; i < len(c.where); i++ {
		if c.Has(int32(i)) {
			c.drop(c.where[i] - 1)
		}
	}
	for s := c.head; s >= 0; s = c.slots[s].next {
		e := &c.slots[s]
		e.k = e.k[:min(len(e.k), m)]
	}
}

// Direct reports whether computing rows one at a time is as cheap as in blocks. It is
// while all points are binary. Direct depends on the points alone.
func (c *Cache) Direct() bool { return c.bits != nil && c.bits.active() }

// Has reports whether the row of point i is cached.
func (c *Cache) Has(i int32) bool { return c.where[i] > 0 }

// Row returns the kernel row of point i. It is valid until Block−1 other rows have
// been used or fetched.
func (c *Cache) Row(i int) []float32 {
	if !c.Has(int32(i)) {
		c.Fetch([]int32{int32(i)})
	}
	s := c.where[i] - 1
	c.touch(s)
	e := &c.slots[s]
	if e.k == nil || e.tick != c.now {
		c.update(e)
	}
	return e.k
}

// update recomputes the outdated columns of a row.
func (c *Cache) update(e *slot) {
	n, i, whole := c.basis.Len(), int(e.point), e.k == nil
	c.resize(e, n)
	if whole {
		c.compute(e.k, i, 0)
	}
	for j := 0; j < n && e.tick != c.now; j++ {
		if c.changed[j] <= e.tick {
			continue
		}
		from := j
		for j < n && c.changed[j] > e.tick {
			j++
		}
		c.Evals += int64(j - from)
		if !whole {
			c.compute(e.k[from:j], i, from)
		}
	}
	e.tick = c.now
}

// compute sets dst to the columns, starting at from, of the row of point i.
func (c *Cache) compute(dst []float32, i, from int) {
	if c.Direct() {
		c.bits.row(dst, i, from)
	} else {
		c.basis.Between(dst, len(dst), []int32{int32(i)}, from, from+len(dst))
	}
}

// Fetch computes the rows of up to Block distinct points, none of them cached, in
// one pass over the points.
func (c *Cache) Fetch(idx []int32) {
	n := c.basis.Len()
	single := len(idx) == 1 || c.Direct()
	if !single && len(idx) > 0 {
		c.scratch(len(idx) * n)
		c.basis.Between(c.block, n, idx, 0, n)
	}
	c.Evals += int64(n * len(idx))
	for r, i := range idx {
		e := &c.slots[c.add(i)]
		c.resize(e, n)
		if single {
			c.compute(e.k, int(i), 0)
		} else {
			copy(e.k, c.block[r*n:(r+1)*n])
		}
	}
}

func (c *Cache) scratch(n int) {
	if len(c.block) < n {
		c.block = make([]float32, n)
	}
}

// limit returns the largest number of rows to cache.
func (c *Cache) limit() int { return max(Block, c.bytes/max(4*c.basis.Len(), 1)) }

// add makes an entry for a point that has none, evicting the least recently used row
// if necessary. If the present call of Each needs that row too, add returns −1.
func (c *Cache) add(point int32) int32 {
	var spare []float32
	for limit := c.limit(); c.held >= limit; {
		last := &c.slots[c.tail]
		if c.call > 0 && last.call == c.call {
			return -1
		}
		if cap(last.k) >= c.basis.Len() {
			spare = last.k[:0]
		}
		c.drop(c.tail)
	}
	s := int32(len(c.slots))
	if n := len(c.idle); n > 0 {
		s = c.idle[n-1]
		c.idle = c.idle[:n-1]
	} else {
		c.slots = append(c.slots, slot{})
	}
	c.slots[s] = slot{point: point, tick: c.now, call: c.call, k: spare}
	c.where[point] = s + 1
	c.held++
	c.link(s)
	return s
}

// resize gives a row n columns, keeping the existing ones.
func (c *Cache) resize(e *slot, n int) {
	if n <= cap(e.k) {
		e.k = e.k[:n]
		return
	}
	if e.k != nil {
		// Leave room to grow.
		e.k = append(make([]float32, 0, n+n/8), e.k...)[:n]
		return
	}
	e.k = make([]float32, n)
}

func (c *Cache) drop(s int32) {
	e := &c.slots[s]
	c.unlink(s)
	c.where[e.point] = 0
	*e = slot{}
	c.idle = append(c.idle, s)
	c.held--
}

func (c *Cache) clear() {
	for c.head >= 0 {
		c.drop(c.head)
	}
}

func (c *Cache) touch(s int32) {
	if c.head != s {
		c.unlink(s)
		c.link(s)
	}
}

func (c *Cache) link(s int32) {
	e := &c.slots[s]
	e.prev, e.next = -1, c.head
	if c.head >= 0 {
		c.slots[c.head].prev = s
	} else {
		c.tail = s
	}
	c.head = s
}

func (c *Cache) unlink(s int32) {
	e := &c.slots[s]
	if e.prev >= 0 {
		c.slots[e.prev].next = e.next
	} else {
		c.head = e.next
	}
	if e.next >= 0 {
		c.slots[e.next].prev = e.prev
	} else {
		c.tail = e.prev
	}
}

var errLengths = errors.New("lengths do not agree")

// Fields describes the directory.
func (c *Cache) Fields(f *state.Fields) {
	var held []int32 // most recently used last
	var tick []uint64
	for s := c.tail; s >= 0; s = c.slots[s].prev {
		held, tick = append(held, c.slots[s].point), append(tick, c.slots[s].tick)
	}
	f.Int32s("held", &held)
	f.Uint64s("tick", &tick)
	f.Uint64s("changed", &c.changed)
	f.Uint64("now", &c.now)
	f.Int64("evals", &c.Evals)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n := c.basis.Len()
	if len(c.changed) != n || len(tick) != len(held) || len(held) > n {
		f.Fail("held", errLengths)
		return
	}
	*c = Cache{
		basis: c.basis, bytes: c.bytes, sparse: c.basis.Sparse(), head: -1, tail: -1, where: make([]int32, n),
		Evals: c.Evals, changed: c.changed, now: c.now, bits: newBitset(c.basis.Func),
	}
	for i := range n {
		c.bits.set(i, c.basis.Row(i))
	}
	// Earlier versions held more rows.
	for h := max(0, len(held)-c.limit()); h < len(held); h++ {
		i := held[h]
		if i < 0 || int(i) >= n || c.Has(i) {
			f.Fail("held", fmt.Errorf("no row %d", i))
			return
		}
		c.slots[c.add(i)].tick = tick[h]
	}
}
