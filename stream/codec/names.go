package codec

import (
	"encoding/binary"
	"strings"

	"github.com/streamsvm/streamsvm/internal/event"
)

// names finds the fields of an object by their keys: an open hash table, which
// for the keys of events takes a fraction of the time of a map.
type names struct {
	table []name // a power of 2, at least twice as many as there are names
	n     int
}

// A name stands for a field, or for an object with fields of its own.
type name struct {
	text string // empty where the table has none
	at   int    // the field; see below
	sub  *names // the fields of the object, or nil
}

// What a name stands for that is no feature's field.
const (
	inside  = -1 - iota // only an object with fields
	ignored             // a field that is known, and not used
	labelAt
	idAt
	weightAt
)

// newNames returns the names of a schema's fields.
func newNames(s *event.Schema) *names {
	root := new(names)
	add := func(path string, at int) {
		if path == "" {
			return
		}
		root.put(path, at)
		if s.Root != "" {
			root.put(s.Root+"."+path, at)
		}
	}
	add(s.Label, labelAt)
	add(s.ID, idAt)
	add(s.Weight, weightAt)
	for i := range s.Fields {
		at := i
		if s.Fields[i].Type == event.Ignore {
			at = ignored
		}
		add(s.Fields[i].Name, at)
	}
	return root
}

// mostDots is how many dots of a path may each be part of a key or not: the ways
// to read it double with each. With more of them the first one is none.
const mostDots = 6

// put adds a path: as one key, and as a key of each object that its dots may
// stand for.
func (n *names) put(path string, at int) {
	if e := n.get(path); e.at == inside {
		e.at = at
	}
	dots := strings.Count(path, ".")
	for i := range len(path) {
		if dots > mostDots && i > strings.IndexByte(path[1:], '.')+1 {
			break
		}
		if path[i] == '.' && i > 0 && i+1 < len(path) {
			e := n.get(path[:i])
			if e.sub == nil {
				e.sub = new(names)
			}
			e.sub.put(path[i+1:], at)
		}
	}
}

// get returns the entry of a key, which is made if there is none.
func (n *names) get(text string) *name {
	if e := n.find([]byte(text)); e != nil {
		return e
	}
	if 2*(n.n+1) > len(n.table) {
		old := n.table
		n.table = make([]name, max(4, 2*len(old)))
		for _, e := range old {
			if e.text != "" {
				*n.free(e.text) = e
			}
		}
	}
	n.n++
	e := n.free(text)
	*e = name{text: text, at: inside}
	return e
}

func (n *names) free(text string) *name {
	for i := n.slot([]byte(text)); ; i = (i + 1) & (len(n.table) - 1) {
		if n.table[i].text == "" {
			return &n.table[i]
		}
	}
}

// find returns the entry of a key, or nil.
func (n *names) find(key []byte) *name {
	if len(n.table) == 0 || len(key) == 0 {
		return nil
	}
	for i := n.slot(key); ; i = (i + 1) & (len(n.table) - 1) {
		e := &n.table[i]
		if e.text == string(key) {
			return e
		}
		if e.text == "" {
			return nil
		}
	}
}

func (n *names) slot(b []byte) int {
	var h uint64
	switch l := len(b); {
	case l >= 8:
		h = binary.LittleEndian.Uint64(b) + 31*binary.LittleEndian.Uint64(b[l-8:])
	case l >= 4:
		h = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[l-4:]))<<32
	case l > 0:
		h = uint64(b[0]) | uint64(b[l/2])<<8 | uint64(b[l-1])<<16
	}
	h = (h + uint64(len(b))) * 0x9e3779b97f4a7c15
	return int(h>>32) & (len(n.table) - 1)
}

// pathOf returns the path of key in an object, as messages and schemas have it.
func pathOf(prefix, key string) string {
	if prefix == "" {
		return key
	}
	var b strings.Builder
	b.WriteString(prefix)
	b.WriteByte('.')
	b.WriteString(key)
	return b.String()
}
