package codec

import (
	"errors"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/stream"
)

// FieldCount says what a codec of events has noticed in a field since it was
// made.
type FieldCount struct {
	Name, Type string
	// Missing, Unknown and Invalid say how often there was no value, a category
	// that the first events did not have, and a value of another type; Outside,
	// how often a number was outside the range of the first events.
	Missing, Unknown, Invalid, Outside uint64
	// PSI is the population stability index against the first events: below 0.1
	// little has changed, above 0.25 much. NaN where it is not known.
	PSI float64
}

// FieldCounts returns what d has noticed in the fields of events, how many of
// them it has read, and how many of their fields its schema does not list. It
// may be called at any time; there is nothing where records are vectors.
func FieldCounts(d stream.Decoder) (fields []FieldCount, events, unlisted uint64) {
	c, ok := d.(interface{ counts() *event.Seen })
	if !ok {
		return nil, 0, 0
	}
	seen := c.counts()
	for _, f := range seen.Counts() {
		fields = append(fields, FieldCount{f.Field, string(f.Type), f.Missing, f.Unknown, f.Invalid, f.Outside, f.PSI})
	}
	return fields, seen.Events.Load(), seen.Fields.Load()
}

func (e *events) counts() *event.Seen { return e.seen }

// DescribeSchema returns a schema as YAML, for people to read and edit and for
// Options.Events: the fields with what was found out about them in comments.
func DescribeSchema(schema string) ([]byte, error) {
	s, err := event.Parse(schema)
	if err != nil {
		return nil, err
	}
	return s.Spec()
}

// SchemaFeatures returns a name for each feature of the vectors that a schema
// makes: amount, country=DE, country other, amount missing.
func SchemaFeatures(schema string) ([]string, error) {
	if schema == "" {
		return nil, errors.New("no schema: records are vectors")
	}
	s, err := event.Parse(schema)
	if err != nil {
		return nil, err
	}
	return s.Features(), nil
}
