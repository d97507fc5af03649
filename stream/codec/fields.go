package codec

import (
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// MaxNames is the most names that CompareFields returns in a list.
const MaxNames = 20

// CompareFields compares the names in a JSON record with the names that d reads. unknown
// are the fields that d skips because its schema does not list them; missing are the
// schema's fields that the record does not have, not even as null. Each list has up to
// MaxNames names. Both are nil if d does not read JSON, or cannot read the record.
func CompareFields(d stream.Decoder, record []byte) (unknown, missing []string) {
	switch c := d.(type) {
	case *jsonEvents:
		return compareFields(c.names, c.schema.Fields, record)
	case *jsonCodec:
		return compareFields(vectorNames, nil, record)
	}
	return nil, nil
}

// vectorNames are the keys of a vector in JSON.
var vectorNames = func() *names {
	n := newKeys()
	for _, key := range []string{"x", "y", "id", "weight", "ts"} {
		n.put(key, ignored, false)
	}
	return n
}()

func compareFields(n *names, fields []events.Field, record []byte) (unknown, missing []string) {
	p := jsonText{b: unframed(record)}
	present := make([]bool, len(fields))
	var walk func(n *names, path string, depth int, inList bool) error
	items := func(n *names, path string, depth int) error {
		for first := true; ; first = false {
			more, err := p.more(first, ']')
			if err != nil || !more {
				return err
			}
			if p.eat('{') {
				err = walk(n, path, depth+2, true)
			} else {
				err = p.skip(depth + 1)
			}
			if err != nil {
				return err
			}
		}
	}
	walk = func(n *names, path string, depth int, inList bool) error {
		for first := true; ; first = false {
			more, err := p.more(first, '}')
			if err != nil || !more {
				return err
			}
			key, err := p.key()
			if err != nil {
				return err
			}
			e := n.byKey[string(key)]
			if e != nil && e.sub != nil && !inList {
				if inner, ok := p.embedded(depth + 1); ok {
					outer := p
					p = inner
					err = walk(e.sub, pathOf(path, e.text), depth+1, false)
					if p = outer; err != nil {
						return err
					}
					continue
				}
			}
			switch {
			case e == nil:
				if len(unknown) < MaxNames {
					unknown = append(unknown, pathOf(path, string(key)))
				}
			case e.sub != nil && depth <= maxDepth && p.eat('{'):
				if err := walk(e.sub, pathOf(path, e.text), depth+1, inList); err != nil {
					return err
				}
				continue
			case e.at >= 0:
				present[e.at] = true
			}
			if e != nil && e.sub != nil && !inList && depth <= maxDepth && p.eat('[') {
				if err := items(e.sub, pathOf(path, e.text), depth); err != nil {
					return err
				}
				continue
			}
			if err := p.skip(depth); err != nil {
				return err
			}
		}
	}
	if p.open() != nil || walk(n, "", 1, false) != nil {
		return nil, nil
	}
	for i := range fields {
		if !present[i] && fields[i].Type != events.Ignore && len(missing) < MaxNames {
			missing = append(missing, fields[i].Name)
		}
	}
	return unknown, missing
}

// FieldCount holds the statistics of one field since the codec of events was made.
type FieldCount = events.FieldStatistics

// FieldCounts returns the issues that d has counted in the fields of events, the number of
// events read, and the number of fields seen that its schema does not list. It may be
// called at any time. It returns nothing if records are vectors.
func FieldCounts(d stream.Decoder) (fields []FieldCount, read, unlisted uint64) {
	c, ok := d.(interface{ statistics() *events.Statistics })
	if !ok || c.statistics() == nil {
		return nil, 0, 0
	}
	read, unlisted = c.statistics().Events()
	return c.statistics().Fields(), read, unlisted
}
