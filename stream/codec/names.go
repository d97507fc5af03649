package codec

import (
	"strings"

	"github.com/streamsvm/streamsvm/internal/event"
)

// names finds the fields of an object by their keys.
type names struct {
	table event.Table
	list  []*name // as the table has them
}

// A name stands for a field, or for an object with fields of its own.
type name struct {
	text string
	at   int    // the field; see below
	sub  *names // the fields of the object, or nil
	// plain says that of a number float32 is all that is kept.
	plain bool
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
	add := func(path string, at int, plain bool) {
		if path == "" {
			return
		}
		root.put(path, at, plain)
		if s.Root != "" {
			root.put(s.Root+"."+path, at, plain)
		}
	}
	add(s.Label, labelAt, false)
	add(s.ID, idAt, false)
	add(s.Weight, weightAt, false)
	for i := range s.Fields {
		at := i
		f := &s.Fields[i]
		if f.Type == event.Ignore {
			at = ignored
		}
		add(f.Name, at, f.Type == event.Numeric && f.Transform == "" && f.Clip == nil)
	}
	return root
}

// mostDots is how many dots of a path may each be part of a key or not: the ways
// to read it double with each. With more of them the first one is none.
const mostDots = 6

// put adds a path: as one key, and as a key of each object that its dots may
// stand for.
func (n *names) put(path string, at int, plain bool) {
	if e := n.get(path); e.at == inside {
		e.at, e.plain = at, plain
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
			e.sub.put(path[i+1:], at, plain)
		}
	}
}

// get returns the entry of a key, which is made if there is none.
func (n *names) get(text string) *name {
	at := n.table.Put(text)
	if at == len(n.list) {
		n.list = append(n.list, &name{text: text, at: inside})
	}
	return n.list[at]
}

// find returns the entry of a key, or nil.
func (n *names) find(key []byte) *name {
	if at := n.table.Find(key); at >= 0 {
		return n.list[at]
	}
	return nil
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
