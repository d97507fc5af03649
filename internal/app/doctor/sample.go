package doctor

import (
	"context"
	"io"
	"slices"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// sample reads records of the topics: all of them if they are not more than
// triedRecords, else the first ones, some from the middle and the last ones.
func (d *checks) sample(ctx context.Context, topics []string, from stream.Offsets) (recs []stream.Record, whole bool, err error) {
	opts := *d.Source
	opts.Topics, opts.Offsets = topics, from
	if !slices.Equal(topics, d.Topics) {
		opts.Partitions = nil
	}
	// Nothing is told to the group, and there may be nothing after the latest.
	opts.Group, opts.UntilEnd, opts.MaxDown, opts.OutOfRange = "", true, triedFor, kafkaio.OutOfRangeEarliest
	if opts.Start == kafkaio.StartLatest {
		opts.Start = kafkaio.StartEarliest
	}
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil {
		return nil, false, err
	}
	start, end := src.Start(), src.End()
	total := int64(0)
	for p := range end {
		total += max(0, end[p]-start[p])
	}
	whole = total <= triedRecords
	most := triedRecords
	if !whole {
		most /= 2
	}
	recs, err = take(ctx, src, most)
	if err != nil || whole {
		return recs, whole, err
	}
	for _, at := range []float64{0.5, 1} {
		opts.Offsets, opts.StopAt, opts.UntilEnd = stream.Offsets{}, stream.Offsets{}, false
		each := int64(max(1, triedRecords/4/len(end)))
		for p := range end {
			last := max(start[p], start[p]+int64(at*float64(end[p]-start[p]))-each)
			opts.Offsets[p], opts.StopAt[p] = last, min(last+each, end[p])
		}
		src, err := kafkaio.NewSource(ctx, opts)
		if err != nil {
			return recs, whole, err
		}
		more, err := take(ctx, src, triedRecords)
		if err != nil {
			return recs, whole, err
		}
		recs = append(recs, more...)
	}
	return recs, whole, nil
}

// take reads up to n records of a bounded source, fewer if they are large, and
// closes it.
func take(ctx context.Context, src *kafkaio.Source, n int) (recs []stream.Record, err error) {
	defer src.Close()
	bytes := 0
	for len(recs) < n && bytes < triedBytes && err == nil {
		before := len(recs)
		recs, err = src.Fetch(ctx, recs)
		for i := range recs[before:] {
			bytes += len(recs[before+i].Value)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return recs[:min(n, len(recs))], err
}
