package doctor

import (
	"context"
	"io"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// sample reads the records of the topics that train would read first, up to
// triedRecords of them, or joinedRecords with labels that come later, fewer if they are large.
// whole reports whether the topics have no others.
func (d *checks) sample(ctx context.Context, from stream.Offsets) (recs []stream.Record, whole bool, err error) {
	opts, most := *d.Source, triedRecords
	opts.Topics, opts.Offsets = d.reads(), from
	if d.Labels != "" || d.Learner.Join.By != "" {
		opts.Merge, most = kafkaio.MergeOrdered, joinedRecords
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
	for len(recs) < most && bytes < triedBytes && err == nil {
		before := len(recs)
		recs, err = src.Fetch(ctx, recs)
		for i := range recs[before:] {
			bytes += len(recs[before+i].Value)
		}
	}
	whole = err == io.EOF && len(recs) <= most
	if err == io.EOF {
		err = nil
	}
	return recs[:min(most, len(recs))], whole, err
}
