package codec

import (
	"strings"

	"github.com/streamsvm/streamsvm/events"
)

// names finds the fields of an object by their keys.
type names struct{ byKey map[string]*name }

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

func newKeys() *names { return &names{map[string]*name{}} }

// newNames returns the names of a schema's fields.
func newNames(s *events.Schema) *names {
	root := newKeys()
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
		if f.Type == events.Ignore {
			at = ignored
		}
		add(f.Name, at, f.Type == events.Numeric && f.Transform == "" && f.Clip == nil)
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
				e.sub = newKeys()
			}
			e.sub.put(path[i+1:], at, plain)
		}
	}
}

// get returns the entry of a key, and makes one if there is none.
func (n *names) get(text string) *name {
	if n.byKey[text] == nil {
		n.byKey[text] = &name{text: text, at: inside}
	}
	return n.byKey[text]
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
