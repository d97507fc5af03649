package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// topicFlags say where records are produced to.
type topicFlags struct {
	kafkaFlags
	topic      string
	partitions int
	rate       float64
	maxDown    time.Duration
}

func (o *topicFlags) define(f *cli.Flags) {
	f.Group("Output", func() {
		f.StringVar(&o.topic, "topic", "", "`TOPIC` to write to")
		f.IntVar(&o.partitions, "partitions", 0, "create the topic with this many partitions if it does not exist; 0 does not")
		f.Float64Var(&o.rate, "rate", 0, "records per second; 0 is as fast as possible")
		f.DurationVar(&o.maxDown, "max-down", 30*time.Second, "give up when no broker answers for so long; 0 never does")
	})
	o.kafkaFlags.define(f)
}

// check finds what is wrong with single values.
func (o *topicFlags) check(c *cli.Call) error {
	switch {
	case !(o.rate >= 0):
		return c.Bad("rate", fmt.Errorf("%v is not 0 or more", o.rate))
	case o.partitions < 0:
		return c.Bad("partitions", fmt.Errorf("%d is negative", o.partitions))
	}
	return badMaxDown(c, o.maxDown)
}

// open creates the topic, if asked to, and returns a producer.
func (o *topicFlags) open(ctx context.Context, c *cli.Call, by kafkaio.Partitioner) (*kafkaio.Producer, error) {
	if err := o.check(c); err != nil {
		return nil, err
	}
	if o.topic == "" {
		return nil, c.Bad("topic", errors.New("no topic is given"))
	}
	cfg, err := o.config(c)
	if err != nil {
		return nil, err
	}
	// The topic comes first: a producer that is older than its topic waits until
	// the metadata that it has cached expires.
	if o.partitions > 0 {
		if _, err := kafkaio.CreateTopic(ctx, cfg, kafkaio.TopicSpec{Name: o.topic, Partitions: o.partitions, MaxDown: o.maxDown}); err != nil {
			return nil, kafkaError(err)
		}
	}
	p, err := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: cfg, Partition: by, MaxDown: o.maxDown})
	if err != nil {
		return nil, kafkaError(err)
	}
	return p, nil
}

// pace makes records due at a rate, or at the distances that they had.
type pace struct {
	rate     float64
	original bool
	start    time.Time
	n        int
	first    time.Time // of the first record that has a time
}

// wait returns how many of the records, at least one, may go now, after
// waiting until the first of them is due.
func (p *pace) wait(ctx context.Context, recs []stream.Record) (int, error) {
	if p.rate <= 0 && !p.original {
		return len(recs), ctx.Err()
	}
	now := time.Now()
	if p.start.IsZero() {
		p.start = now
	}
	due := func(i int) time.Time {
		if !p.original {
			return p.start.Add(time.Duration(float64(p.n+i) / p.rate * float64(time.Second)))
		}
		if recs[i].Time.IsZero() {
			return now
		}
		if p.first.IsZero() {
			p.first = recs[i].Time
		}
		return p.start.Add(recs[i].Time.Sub(p.first))
	}
	if d := due(0).Sub(now); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case now = <-t.C:
		}
	}
	n := 1
	for n < len(recs) && !due(n).After(now) {
		n++
	}
	p.n += n
	return n, nil
}

func produceCommand() *cli.Command {
	return &cli.Command{
		Name: "produce", Args: "FILE...", Summary: "write data files or recordings to a topic",
		Text: `
Sends each line of a data file, or each record of a recording with its key,
headers and timestamp, as one record. Values are not converted: consumers read
them with the codec of the file.`,
		Example: "streamsvm produce ijcnn1.train.libsvm.gz --topic examples --partitions 4 --rate 5000",
		Common:  []string{"brokers", "topic", "partitions", "rate", "original-timing", "partition-by", "codec", "csv-header", "limit", "config"},
		MinArgs: 1, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var o topicFlags
			var fo fileio.Options
			var by string
			var original bool
			f.Group("Input", func() {
				f.StringVar(&fo.Codec, "codec", "", "`FORMAT` of the files, by default what their names say: libsvm, json, msgpack, csv")
				f.BoolVar(&fo.Header, "csv-header", false, "csv: the first line names the columns, and is not sent")
				f.Uint64Var(&fo.Limit, "limit", 0, "send only the first `N` records; 0 sends all")
				f.IntVar(&fo.Passes, "passes", 1, "how often to go through the files")
			})
			o.define(f)
			f.Group("Output", func() {
				f.Choice(&by, "partition-by", "key", []string{"key", "rr", "recorded"}, "partition of a record: by its key or if it has none in turn, always in turn, as in the recording")
				f.BoolVar(&original, "original-timing", false, "keep the time between records as it was")
			})
			return func(ctx context.Context, c *cli.Call) error {
				switch {
				case fo.Passes < 1:
					return c.Bad("passes", fmt.Errorf("%d passes, want at least 1", fo.Passes))
				case original && o.rate != 0:
					return c.Bad("original-timing", errors.New("it cannot be combined with --rate"))
				}
				src, err := fileio.Open(c.Args, fo)
				if err != nil {
					return cli.Fail(cli.Usage, err)
				}
				defer src.Close()
				p, err := o.open(ctx, c, partitioner(by))
				if err != nil {
					return err
				}
				defer p.Close()
				cfg, err := o.config(c)
				if err != nil {
					return err
				}
				return pump(ctx, c, watchAge(ctx, src, cfg, o.topic, c.Log), p, o.topic, &pace{rate: o.rate, original: original})
			}
		},
	}
}

func partitioner(by string) kafkaio.Partitioner {
	switch by {
	case "recorded":
		return kafkaio.Explicit
	case "rr":
		turn := -1
		return func(_ *stream.Record, n int) int32 {
			turn = (turn + 1) % n
			return int32(turn)
		}
	}
	return kafkaio.ByKey()
}

// paced hands the records of src to put, when they are due, until it ends.
func paced(ctx context.Context, src stream.Source, pc *pace, put func(recs []stream.Record) error) error {
	var recs []stream.Record
	for {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for rest := recs; len(rest) > 0; {
			k, err := pc.wait(ctx, rest)
			if err == nil {
				err = put(rest[:k])
			}
			if err != nil {
				return err
			}
			rest = rest[k:]
		}
	}
}

// pump copies src to the topic until it ends.
func pump(ctx context.Context, c *cli.Call, src stream.Source, p *kafkaio.Producer, topic string, pc *pace) error {
	start := time.Now()
	said, n := start, 0
	err := paced(ctx, src, pc, func(recs []stream.Record) error {
		for i := range recs {
			recs[i].Topic = topic
		}
		if err := p.Produce(ctx, recs...); err != nil {
			return notThere(err, "--partitions N creates it, with N partitions")
		}
		n += len(recs)
		if now := time.Now(); !c.Quiet && now.Sub(said) >= 5*time.Second {
			said = now
			fmt.Fprintf(c.Err, "%d records, %.0f/s\n", n, float64(n)/now.Sub(start).Seconds())
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return errors.Join(cli.Failf(cli.Temporary, "interrupted after %d records", n), flush(p))
	}
	if err != nil {
		return err
	}
	if err := p.Flush(ctx); err != nil {
		return kafkaError(err)
	}
	took := time.Since(start)
	if !c.Quiet {
		fmt.Fprintf(c.Err, "%d records written to topic %s in %.2f s (%.0f/s)\n", n, topic, took.Seconds(), float64(n)/took.Seconds())
	}
	return nil
}

// notThere says what to do about a topic to write to that does not exist, as
// far as the user may know.
func notThere(err error, remedy string) error {
	var unknown *kafkaio.UnknownTopicError
	if errors.As(err, &unknown) && unknown.Partition < 0 {
		return cli.Failf(cli.Unavailable, "%w, or the user may not write to it: %s", err, remedy)
	}
	return kafkaError(err)
}

// flush waits a little for what is on its way after an interruption.
func flush(p *kafkaio.Producer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return kafkaError(p.Flush(ctx))
}

func recordCommand() *cli.Command {
	return &cli.Command{
		Name: "record", Args: "FILE" + fileio.RecordingExt, Summary: "save the records of topics to a recording, in the order of consumption",
		Text: `
Saves topic, partition, offset, timestamp, key, headers and value of every
record, compressed and with checksums. replay learns from the recording exactly
what train would have learned. Stops at --until-end, --limit, SIGINT or SIGTERM.`,
		Example: "streamsvm record clicks.ssr --topics clicks --until-end",
		Common:  []string{"brokers", "topics", "partitions", "start", "until-end", "limit", "config"},
		MinArgs: 1, MaxArgs: 1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var so sourceFlags
			var kf kafkaFlags
			var limit uint64
			so.define(f)
			f.Group("Input", func() { f.Uint64Var(&limit, "limit", 0, "stop after `N` records; 0 does not") })
			kf.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				cfg, err := kf.config(c)
				if err != nil {
					return err
				}
				opts, err := so.options(c, cfg, nil)
				if err != nil {
					return err
				}
				src, err := kafkaio.NewSource(ctx, opts)
				if err != nil {
					return kafkaError(err)
				}
				defer src.Close()
				return record(ctx, c, src, c.Args[0], limit)
			}
		},
	}
}

// record writes src to a new recording until it ends, ctx ends, or there are
// limit records.
func record(ctx context.Context, c *cli.Call, src stream.Source, path string, limit uint64) error {
	w, err := fileio.CreateRecording(path)
	if err != nil {
		return err
	}
	var n uint64
	var recs []stream.Record
	synced := time.Now()
	ended := false
	for !ended && (limit == 0 || n < limit) {
		if recs, err = src.Fetch(ctx, recs[:0]); err != nil {
			ended = errors.Is(err, io.EOF)
			break
		}
		for i := range recs {
			if limit > 0 && n == limit {
				break
			}
			if err := w.Write(&recs[i]); err != nil {
				return errors.Join(err, w.Close(false))
			}
			n++
		}
		if now := time.Now(); now.Sub(synced) >= time.Second {
			synced = now
			if _, err := w.Sync(); err != nil {
				return err
			}
		}
	}
	if ended || ctx.Err() != nil {
		err = nil
	}
	if err := errors.Join(kafkaError(err), w.Close(ended)); err != nil {
		return err
	}
	if !c.Quiet {
		size := int64(0)
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		fmt.Fprintf(c.Err, "%d records in %s, %d bytes\n", n, path, size)
	}
	return nil
}
