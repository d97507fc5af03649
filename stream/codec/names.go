package codec

import (
	"strings"

	"github.com/streamsvm/streamsvm/events"
)

// names finds the fields of an object by their keys.
type names struct{ byKey map[string]*name }

// A name is a field, or an object with fields, or both.
type name struct {
	text string
	at   int    // the field; see below
	sub  *names // the fields of the object, or nil
	// plain says that the feature is the number itself, as a float32.
	plain bool
}

// Values of name.at that are not indices of fields.
const (
	inside  = -1 - iota // an object with fields only
	ignored             // listed, but not used
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

// mostDots bounds the dots of a path that may be part of a key or separate two keys: each
// doubles the ways to read it. With more dots all but the first separate nothing.
const mostDots = 6

// put adds a path: as one key, and as a key of each object that its dots may separate.
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

// pathOf returns the path of key in an object, as messages and schemas write it.
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
