package codec

import "github.com/streamsvm/streamsvm/events"

// Inputs describes the records of a Signature: events, vectors with named features,
// or plain vectors.
type Inputs struct {
	// Events says that records are events.
	Events bool
	// Strict says that events with fields not listed in Fields are refused.
	Strict bool
	// Root, if not empty, is the path of the object that holds the fields of an
	// event.
	Root string
	// Fields lists the fields of events, or the features of vectors in order. It is
	// empty if features have no names.
	Fields []Input
	// Length is the number of features of vectors; 0 if it is not known.
	Length int
}

// An Input is a field of events, or a named feature.
type Input struct {
	Name string
	// Type is as in a specification of events: numeric, for example, or ignore.
	Type string
	// Width is the number of values in a record; -1 is any number.
	Width int
}

// Inputs describes the records. Fields of events include label, id and weight, with type
// ignore.
func (s *Signature) Inputs() (Inputs, error) {
	in := Inputs{Length: s.Length()}
	known := map[string]bool{"": true}
	add := func(name string, kind events.Type, width int) {
		if !known[name] {
			known[name] = true
			in.Fields = append(in.Fields, Input{name, string(kind), width})
		}
	}
	for _, name := range s.Features() {
		add(name, events.Numeric, 1)
	}
	if s.Schema == "" {
		return in, nil
	}
	schema, err := events.Parse(s.Schema)
	if err != nil {
		return in, err
	}
	in.Events, in.Strict, in.Root = true, schema.Unlisted == events.Refuse, schema.Root
	for i := range schema.Fields {
		f := &schema.Fields[i]
		width := 1
		switch f.Type {
		case events.Array:
			width = len(f.Means)
		case events.Tags, events.Summary:
			width = -1
		}
		add(f.Name, f.Type, width)
	}
	for _, name := range []string{schema.ID, schema.Label, schema.Weight} {
		add(name, events.Ignore, 1)
	}
	return in, nil
}
