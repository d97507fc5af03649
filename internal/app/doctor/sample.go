package doctor

import (
	"context"
	"io"
	"slices"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// sample reads the records of the topics that train would read first, up to
// triedRecords of them, fewer if they are large. whole reports whether the topics
// have no others.
func (d *checks) sample(ctx context.Context, topics []string, from stream.Offsets) (recs []stream.Record, whole bool, err error) {
	opts := *d.Source
	opts.Topics, opts.Offsets = topics, from
	if !slices.Equal(topics, d.Topics) {
		opts.Partitions = nil
	}
	// Nothing is committed to the group, and there may be nothing after the latest.
	opts.Group, opts.UntilEnd, opts.MaxDown, opts.OutOfRange = "", true, triedFor, kafkaio.OutOfRangeEarliest
	if opts.Start == kafkaio.StartLatest {
		opts.Start = kafkaio.StartEarliest
	}
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil {
		return nil, false, err
	}
	defer src.Close()
	bytes := 0
	for len(recs) < triedRecords && bytes < triedBytes && err == nil {
		before := len(recs)
		recs, err = src.Fetch(ctx, recs)
		for i := range recs[before:] {
			bytes += len(recs[before+i].Value)
		}
	}
	whole = err == io.EOF && len(recs) <= triedRecords
	if err == io.EOF {
		err = nil
	}
	return recs[:min(triedRecords, len(recs))], whole, err
}
