package kafkaio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

// StartAt is the position of the first start.
type StartAt string

// The start positions.
const (
	StartEarliest  StartAt = "earliest"  // the oldest record that is kept; the default
	StartLatest    StartAt = "latest"    // after the newest record
	StartTimestamp StartAt = "timestamp" // the first record that is not older than StartTime
)

// OutOfRange is the policy when the next offset to read no longer exists
// (retention) or does not exist yet (a topic that was created again, or a broker
// that lost records).
type OutOfRange string

// The policies for offsets out of range. All but OutOfRangeFail lose or repeat
// examples.
const (
	OutOfRangeFail     OutOfRange = "fail"     // stop with a *RangeError; the default
	OutOfRangeEarliest OutOfRange = "earliest" // continue at the oldest record that is kept
	OutOfRangeLatest   OutOfRange = "latest"   // continue after the newest record
)

// Merge is the order in which records of different partitions are delivered.
// Inside a partition it is always the order of the log.
type Merge string

// The merge modes.
const (
	// MergeArrival delivers what comes first; the default.
	MergeArrival Merge = "arrival"
	// MergeOrdered delivers the record with the smallest (timestamp, topic, partition)
	// among the next records of all partitions.
	MergeOrdered Merge = "ordered"
)

// SourceOptions are the options of NewSource.
type SourceOptions struct {
	Config

	// Topics to read, at least one.
	Topics []string
	// Partitions restricts a topic to the partitions listed; topics not in the
	// map are read completely, including partitions added later.
	Partitions map[string][]int32

	// Offsets are the positions of the checkpoint. A partition that they name
	// continues there. A partition that they do not name starts at earliest if they
	// name another one of its topic, since it must have been added in the meantime,
	// and otherwise at Start.
	Offsets stream.Offsets
	// Start is the first start's position, StartTime the time for StartTimestamp.
	Start     StartAt
	StartTime time.Time
	// OutOfRange is the policy for positions that do not exist.
	OutOfRange OutOfRange

	// Merge is the order between partitions.
	Merge Merge
	// Lateness is how long an Ordered source waits for a partition that has
	// nothing to deliver; 0 is 5 s. See Source for what it means.
	Lateness time.Duration

	// UntilEnd ends the stream, with io.EOF, at the ends that the partitions
	// have when the source is created.
	UntilEnd bool
	// StopAt, if not nil, ends the stream at these offsets instead; a partition
	// it does not name is not read.
	StopAt stream.Offsets

	// FetchMaxBytes is the size that one request asks of a partition, in bytes on
	// the wire; 0 is 1 MiB. At most three such responses are held per partition:
	// one being delivered, one waiting, one in flight.
	FetchMaxBytes int
	// MaxBuffered bounds the sum over all partitions in bytes on the wire by
	// reducing FetchMaxBytes (not below 16 KiB, and a larger batch comes whole);
	// 0 is 256 MiB.
	MaxBuffered int
	// MaxWait is how long a broker may delay a response when there is nothing
	// new; 0 is 500 ms.
	MaxWait time.Duration
	// Rate is the maximum number of records delivered per second, averaged over at
	// least a tenth of a second; 0 is no limit. What is fetched ahead waits.
	Rate float64
	// MaxDown ends the stream with an error when a partition has not answered
	// for this long; 0 waits forever.
	MaxDown time.Duration
	// TopicWait is how long to wait for a topic that does not exist before
	// returning an error; 0 is not at all, negative forever.
	TopicWait time.Duration
	// Discover is the interval between searches for added partitions; 0 is 10 s.
	Discover time.Duration
	// Group is the consumer group to which Commit reports progress; empty for none.
	Group string
}

func (o *SourceOptions) setDefaults() {
	o.Lateness = cmp.Or(o.Lateness, 5*time.Second)
	o.MaxWait = cmp.Or(o.MaxWait, 500*time.Millisecond)
	o.Discover = cmp.Or(o.Discover, 10*time.Second)
	o.Start = cmp.Or(o.Start, StartEarliest)
	o.OutOfRange = cmp.Or(o.OutOfRange, OutOfRangeFail)
	o.Merge = cmp.Or(o.Merge, MergeArrival)
	o.FetchMaxBytes = cmp.Or(o.FetchMaxBytes, 1<<20)
	o.MaxBuffered = cmp.Or(o.MaxBuffered, 256<<20)
}

// Validate returns an error that names the first option out of its range.
func (o *SourceOptions) Validate() error {
	if err := o.Config.Validate(); err != nil {
		return err
	}
	if len(o.Topics) == 0 {
		return errors.New("kafka source: no topic given")
	}
	for i, t := range o.Topics {
		if t == "" || slices.Contains(o.Topics[:i], t) {
			return fmt.Errorf("kafka source: topic %q is empty or given twice", t)
		}
	}
	for t, ps := range o.Partitions {
		if !slices.Contains(o.Topics, t) {
			return fmt.Errorf("kafka source: partitions of topic %q are listed, but the topic is not", t)
		}
		for i, p := range ps {
			if p < 0 || slices.Contains(ps[:i], p) {
				return fmt.Errorf("kafka source: topic %q: partition %d is negative or given twice", t, p)
			}
		}
	}
	for _, p := range o.Offsets.Partitions() {
		if o.Offsets[p] < 0 {
			return fmt.Errorf("kafka source: %v: offset %d is negative", p, o.Offsets[p])
		}
	}
	switch o.Start {
	case "", StartEarliest, StartLatest:
	case StartTimestamp:
		if o.StartTime.UnixMilli() < 0 {
			return errors.New("kafka source: start at timestamp, but the time is missing or before 1970")
		}
	default:
		return fmt.Errorf("kafka source: start %q is not earliest, latest or timestamp", o.Start)
	}
	switch o.OutOfRange {
	case "", OutOfRangeFail, OutOfRangeEarliest, OutOfRangeLatest:
	default:
		return fmt.Errorf("kafka source: out of range %q is not fail, earliest or latest", o.OutOfRange)
	}
	switch o.Merge {
	case "", MergeArrival, MergeOrdered:
	default:
		return fmt.Errorf("kafka source: merge %q is not arrival or ordered", o.Merge)
	}
	if o.Lateness < 0 || o.MaxWait < 0 || o.MaxDown < 0 || o.Discover < 0 {
		return errors.New("kafka source: a duration is negative")
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 1) {
		return fmt.Errorf("kafka source: rate of %v records a second is out of range", o.Rate)
	}
	if o.MaxWait > time.Hour {
		return fmt.Errorf("kafka source: a wait of %v is out of range", o.MaxWait)
	}
	if o.FetchMaxBytes < 0 || o.FetchMaxBytes > 1<<30 || o.MaxBuffered < 0 {
		return fmt.Errorf("kafka source: fetch size %d or buffer %d is out of range", o.FetchMaxBytes, o.MaxBuffered)
	}
	return nil
}

// RangeError says that the next offset to read does not exist.
type RangeError struct {
	Partition stream.Partition
	// Offset is the requested one; the partition has First up to, but not
	// including, End.
	Offset, First, End int64
}

func (e *RangeError) Error() string {
	why := "its records have been deleted, probably by retention"
	if e.Offset > e.End {
		why = "the topic was created again or has lost records"
	}
	return fmt.Sprintf("kafka: topic %s partition %d: offset %d is out of range, available are %d up to %d: %s",
		e.Partition.Topic, e.Partition.ID, e.Offset, e.First, e.End, why)
}

// UnknownTopicError says that a topic, or one of the partitions listed, does
// not exist.
type UnknownTopicError struct {
	Topic     string
	Partition int32 // −1: the topic itself
}

func (e *UnknownTopicError) Error() string {
	if e.Partition >= 0 {
		return fmt.Sprintf("kafka: topic %s has no partition %d", e.Topic, e.Partition)
	}
	return fmt.Sprintf("kafka: topic %s does not exist", e.Topic)
}
