package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// patience is how long commands that are not services wait for a broker to answer;
// services wait forever. Tests shorten it.
var patience = 30 * time.Second

// sourceFlags say what to read from a cluster, and how.
type sourceFlags struct {
	topics            []string
	partitions        []int32
	start, outOfRange string
	merge             string
	lateness          time.Duration
	untilEnd          bool
	fetchMaxBytes     int
	rate              float64
	wait              time.Duration
	group             string
}

func (o *sourceFlags) define(f *cli.Flags) {
	f.Group("Input", func() {
		f.StringSliceVar(&o.topics, "topics", nil, topicsUsage)
		f.Int32SliceVar(&o.partitions, "partitions", nil, partitionsUsage)
		f.Lookup("partitions").DefValue = ""
		f.StringVar(&o.start, "start", "earliest", startUsage)
		f.Choice(&o.outOfRange, "on-out-of-range", "fail", []string{"fail", "earliest", "latest"}, "what to do when the next offset no longer exists")
		f.Choice(&o.merge, "merge", "", []string{"arrival", "ordered"}, "order between partitions: as they come, or by timestamp, as by default with --join")
		f.DurationVar(&o.lateness, "lateness", 5*time.Second, "how long an ordered merge waits for a partition")
		f.BoolVar(&o.untilEnd, "until-end", false, untilEndUsage)
		f.IntVar(&o.fetchMaxBytes, "fetch-max-bytes", 1<<20, "`BYTES` to ask of a partition at a time")
		f.Float64Var(&o.rate, "rate-limit", 0, rateLimitUsage)
		f.DurationVar(&o.wait, "topic-wait", 3*time.Second, topicWaitUsage) // brokers learn of a new topic at different times
		f.StringVar(&o.group, "group", "", groupUsage)
	})
	f.AlsoKnown("start", "auto-offset-reset", "offset-reset", "start-at")
	f.AlsoKnown("group", "group-id", "consumer-group")
	f.Check(o.check)
}

// options returns the options of a source that begins at the given offsets.
func (o *sourceFlags) options(c *cli.Call, cfg kafkaio.Config, from stream.Offsets) (kafkaio.SourceOptions, error) {
	so := kafkaio.SourceOptions{
		Config: cfg, Topics: o.topics, Offsets: from, OutOfRange: kafkaio.OutOfRange(o.outOfRange),
		Merge: kafkaio.Merge(o.merge), Lateness: o.lateness, UntilEnd: o.untilEnd, FetchMaxBytes: o.fetchMaxBytes, Rate: o.rate,
		TopicWait: o.wait, Group: o.group,
	}
	if len(o.topics) == 0 {
		return so, c.Bad("topics", errors.New("no topic is given"))
	}
	if len(o.partitions) > 0 {
		so.Partitions = map[string][]int32{}
		for _, t := range o.topics {
			so.Partitions[t] = o.partitions
		}
	}
	switch o.start {
	case "earliest", "latest":
		so.Start = kafkaio.StartAt(o.start)
	default:
		so.Start = kafkaio.StartTimestamp
		if ms, err := strconv.ParseInt(o.start, 10, 64); err == nil {
			so.StartTime = time.UnixMilli(ms)
		} else if so.StartTime, err = time.Parse(time.RFC3339, o.start); err != nil {
			return so, c.Bad("start", fmt.Errorf("%q is not earliest, latest, a time like 2026-01-31T12:00:00Z, or milliseconds", o.start))
		}
	}
	if err := so.Validate(); err != nil {
		return so, cli.Fail(cli.Usage, err)
	}
	return so, nil
}

// check returns an error if the flags are invalid.
func (o *sourceFlags) check(c *cli.Call) []error {
	_, err := o.options(c, kafkaio.Config{Brokers: []string{"check:9092"}}, nil)
	var own *cli.Error
	if err != nil && !errors.As(err, &own) {
		err = cli.Fail(cli.Usage, err)
	}
	return []error{err}
}

// from describes what is read, for the line printed at the start.
func (o *sourceFlags) from(brokers []string) string {
	return fmt.Sprintf("topic %s at %s%s", strings.Join(o.topics, ", "), strings.Join(brokers, ","), unless(!o.untilEnd, ", to its present end"))
}

// unless returns text, or "" if not is true.
func unless(not bool, text string) string {
	if not {
		return ""
	}
	return text
}

// kafkaError gives errors of kafkaio their exit codes.
func kafkaError(err error) error {
	var own *cli.Error
	var unknown *kafkaio.UnknownTopicError
	var outside *kafkaio.RangeError
	var refusal kafka.Error
	var reach *kafkaio.ReachError
	var model *modeltopic.NoModelError
	var record *stream.RecordError
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &record): // its cause may well be io.ErrUnexpectedEOF
		return err
	case errors.As(err, &outside):
		return cli.Fail(cli.Data, err)
	case errors.As(err, &unknown) && unknown.Partition < 0:
		return cli.Fail(cli.Unavailable, fmt.Errorf("%w: create it, or correct the name", err))
	case errors.As(err, &unknown), errors.As(err, &model), errors.As(err, &refusal), errors.As(err, &reach), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return cli.Fail(cli.Unavailable, err)
	}
	return err
}
