package codec

import (
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
