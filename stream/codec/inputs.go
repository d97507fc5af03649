package codec

import "github.com/streamsvm/streamsvm/internal/event"

// Inputs says what the records of a Signature hold: events with named fields,
// vectors whose features have names, or vectors.
type Inputs struct {
	// Events says that records are events.
	Events bool
	// Strict says that an event with a field that is not in Fields cannot be used.
	Strict bool
	// Root, if not empty, is the field of events in which all others are.
	Root string
	// Fields are those of events, or the features of vectors in their order. It is
	// empty where features have no names.
	Fields []Input
	// Length is that of vectors; 0 where it is not known.
	Length int
}

// An Input is a field of events, or a feature that has a name.
type Input struct {
	Name string
	// Type is numeric, categorical, boolean, time, text, array, tags or ignore, as
	// in a specification of events.
	Type string
	// Width is how many values a record has; -1 is any number.
	Width int
}

// Inputs returns what the records hold. Labels and ids are among the fields of
// events, with the type ignore.
func (s *Signature) Inputs() (Inputs, error) {
	in := Inputs{Length: s.Length()}
	known := map[string]bool{"": true}
	add := func(name string, kind event.Type, width int) {
		if !known[name] {
			known[name] = true
			in.Fields = append(in.Fields, Input{name, string(kind), width})
		}
	}
	for _, name := range s.Features() {
		add(name, event.Numeric, 1)
	}
	if s.Schema == "" {
		return in, nil
	}
	schema, err := event.Parse(s.Schema)
	if err != nil {
		return in, err
	}
	in.Events, in.Strict, in.Root = true, schema.Others == event.Refuse, schema.Root
	for i := range schema.Fields {
		f := &schema.Fields[i]
		width := 1
		switch f.Type {
		case event.Array:
			width = len(f.Means)
		case event.Tags:
			width = -1
		}
		add(f.Name, f.Type, width)
	}
	for _, name := range []string{schema.ID, schema.Label, schema.Weight} {
		add(name, event.Ignore, 1)
	}
	return in, nil
}
