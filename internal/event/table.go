package event

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// A Table finds texts: names of fields, categories. It is an open hash table,
// which for short texts takes a fraction of the time of a map. The zero value is
// empty.
type Table struct {
	texts []string
	slots []slot // a power of 2, at least twice as many as there are texts
}

// A slot stands for a text, which up to 16 bytes is known by its ends and length.
type slot struct {
	head, tail uint64
	length     uint32
	place      int32 // in texts, from 1 on; 0 is an empty slot
}

// tableSeeds differ from process to process, so that nobody can make up texts
// that fall into one slot.
var tableSeeds = [2]uint64{rand.Uint64(), rand.Uint64()}

// ends returns the first and the last eight bytes of b, or all of it in head:
// with the length they are all of it if that is 16 at most.
func ends(b []byte) (head, tail uint64) {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[len(b)-8:])
	}
	return Short(b), 0
}

// Short returns up to eight bytes, the first of them lowest.
func Short(b []byte) (x uint64) {
	if cap(b) >= 8 { // so nearly always in a record, and lengths need no branches
		return binary.LittleEndian.Uint64(b[:8]) & (1<<(8*uint(len(b))) - 1)
	}
	for i, c := range b {
		x |= uint64(c) << (8 * i)
	}
	return x
}

// slot returns where a text is looked for first.
func (t *Table) slot(b []byte, head, tail uint64) int {
	for i := 8; i < len(b)-8; i += 8 {
		head = mix(head, binary.LittleEndian.Uint64(b[i:])^tableSeeds[0])
	}
	return int(mix(head^uint64(len(b))^tableSeeds[0], tail^tableSeeds[1])) & (len(t.slots) - 1)
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Find returns the place of a text, or −1.
func (t *Table) Find(text []byte) int {
	if len(t.slots) == 0 {
		return -1
	}
	head, tail := ends(text)
	for i := t.slot(text, head, tail); ; i = (i + 1) & (len(t.slots) - 1) {
		s := &t.slots[i]
		if s.place == 0 {
			return -1
		}
		if s.head == head && s.tail == tail && s.length == uint32(len(text)) && (len(text) <= 16 || t.texts[s.place-1] == string(text)) {
			return int(s.place) - 1
		}
	}
}

// Put returns the place of a text, which gets the next one if it has none.
func (t *Table) Put(text string) int {
	b := []byte(text)
	if at := t.Find(b); at >= 0 {
		return at
	}
	t.texts = append(t.texts, text)
	if n := len(t.texts); 2*n > len(t.slots) {
		t.slots = make([]slot, max(4, 2*len(t.slots)))
		for place, text := range t.texts[:n-1] {
			t.insert([]byte(text), place)
		}
	}
	t.insert(b, len(t.texts)-1)
	return len(t.texts) - 1
}

func (t *Table) insert(text []byte, place int) {
	head, tail := ends(text)
	i := t.slot(text, head, tail)
	for t.slots[i].place > 0 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = slot{head, tail, uint32(len(text)), int32(place + 1)}
}
