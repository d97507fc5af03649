package codec

import (
	"errors"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// FieldCount is what a codec of events has noticed in a field since it was made.
type FieldCount = events.FieldStatistics

// FieldCounts returns what d has noticed in the fields of events, how many events it has
// read, and how many fields it has seen that its schema does not list. It may be called
// at any time. It returns nothing if records are vectors.
func FieldCounts(d stream.Decoder) (fields []FieldCount, read, unlisted uint64) {
	c, ok := d.(interface{ statistics() *events.Statistics })
	if !ok || c.statistics() == nil {
		return nil, 0, 0
	}
	read, unlisted = c.statistics().Events()
	return c.statistics().Fields(), read, unlisted
}

// DescribeSchema returns a schema as YAML, for people to read and edit and for
// Options.Events. What was inferred about the fields is in comments.
func DescribeSchema(schema string) ([]byte, error) {
	s, err := events.Parse(schema)
	if err != nil {
		return nil, err
	}
	return s.Spec()
}

// SchemaFeatures returns a name for each feature of the vectors that a schema makes:
// amount, country=DE, country other, amount missing.
func SchemaFeatures(schema string) ([]string, error) {
	if schema == "" {
		return nil, errors.New("no schema: records are vectors")
	}
	s, err := events.Parse(schema)
	if err != nil {
		return nil, err
	}
	return s.Features(), nil
}
