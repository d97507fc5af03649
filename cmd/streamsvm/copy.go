package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// topicFlags say which topic to write to, and how fast.
type topicFlags struct {
	*kafkaFlags
	topic      string
	partitions int // with which the topic is created; 0 does not create it
	rate       float64
}

func (o *topicFlags) define(f *cli.Flags) {
	f.Group("Output", func() {
		f.StringVar(&o.topic, "topic", "", "`TOPIC` to write to")
		f.Float64Var(&o.rate, "rate", 0, "records per second; 0 is as fast as possible")
	})
}

// check returns an error if a value is invalid.
func (o *topicFlags) check(c *cli.Call) error {
	switch {
	case !(o.rate >= 0):
		return c.Bad("rate", fmt.Errorf("%v is not 0 or more", o.rate))
	case o.partitions < 0:
		return c.Bad("partitions", fmt.Errorf("%d is negative", o.partitions))
	}
	return nil
}

// open creates the topic, if partitions is not 0, and returns a producer.
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
		if _, err := kafkaio.CreateTopic(ctx, cfg, kafkaio.TopicSpec{Name: o.topic, Partitions: o.partitions, MaxDown: patience}); err != nil {
			return nil, kafkaError(err)
		}
	}
	p, err := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: cfg, Partition: by, MaxDown: patience})
	if err != nil {
		return nil, kafkaError(err)
	}
	return p, nil
}

// limiter returns a limiter of records per second, with bursts of a tenth of a second;
// nil is as fast as possible.
func limiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), int(max(perSecond/10, 1)))
}

func copyCommand() *cli.Command {
	return &cli.Command{
		Name: "copy", Args: "FILE...", Summary: "write files to a topic, or save the records of topics to a recording",
		Text: `
With --topic, sends each line of a data file, or each record of a recording with
its key, headers and timestamp, to the topic. Values are not converted: consumers
read them with the codec of the file.

With --topics, saves topic, partition, offset, timestamp, key, headers and value of
every record to one new FILE` + fileio.RecordingExt + `, in the order of consumption, compressed and with
checksums. replay learns from the recording exactly what train would have learned.
Stops at --until-end, --limit, SIGINT or SIGTERM.`,
		Example: "streamsvm copy ijcnn1.train.libsvm.gz --topic examples --partitions 4 --rate 5000\n" +
			"streamsvm copy clicks.ssr --topics clicks --until-end",
		Common:  []string{"brokers", "topic", "topics", "partitions", "rate", "partition-by", "codec", "csv-header", "start", "until-end", "limit", "config"},
		MinArgs: 1, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			o := &copying{topicFlags: topicFlags{kafkaFlags: &kafkaFlags{}}}
			before := f.FlagSet
			o.sourceFlags.define(f)
			before.VisitAll(func(fl *pflag.Flag) { o.reading = append(o.reading, fl.Name) })
			o.reading = slices.DeleteFunc(o.reading, func(name string) bool { return name == "partitions" })
			f.Group("Input", func() {
				f.Uint64Var(&o.files.Limit, "limit", 0, limitUsage)
				f.IntVar(&o.files.Passes, "passes", 1, "how often to go through the files")
			})
			f.Group("Format", func() {
				f.Choice(&o.files.Codec, "codec", "", codec.AllNames(), codecUsage)
				f.BoolVar(&o.files.Header, "csv-header", false, headerUsage)
			})
			o.topicFlags.define(f)
			f.Group("Output", func() {
				f.Choice(&o.by, "partition-by", "key", []string{"key", "rr", "recorded"}, "partition of a record: by key, or in turn without one; always in turn; as recorded")
			})
			o.kafkaFlags.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				other, direction := o.reading, "reads from --topics"
				if o.topic == "" {
					other, direction = []string{"rate", "partition-by", "codec", "csv-header", "passes"}, "writes to --topic"
				}
				for _, name := range other {
					if c.Origin(name).Source == cli.FromFlag {
						return c.Bad(name, fmt.Errorf("it is for a copy that %s", direction))
					}
				}
				if o.topic == "" {
					return o.record(ctx, c)
				}
				return o.produce(ctx, c)
			}
		},
	}
}

// copying holds the settings of one call of the command copy.
type copying struct {
	sourceFlags
	topicFlags
	files   fileio.Options
	by      string
	reading []string // names of flags about the input
}

// produce writes the files to the topic.
func (o *copying) produce(ctx context.Context, c *cli.Call) error {
	if n := o.sourceFlags.partitions; len(n) > 1 {
		return c.Bad("partitions", errors.New("a copy to a topic takes one number, with how many to create it"))
	} else if len(n) == 1 {
		o.topicFlags.partitions = int(n[0])
	}
	if o.files.Passes < 1 {
		return c.Bad("passes", fmt.Errorf("%d passes, want at least 1", o.files.Passes))
	}
	src, err := fileio.Open(c.Args, o.files)
	if err != nil {
		return cli.Fail(cli.Usage, err)
	}
	defer src.Close()
	p, err := o.open(ctx, c, partitioner(o.by))
	if err != nil {
		return err
	}
	defer p.Close()
	cfg, err := o.config(c)
	if err != nil {
		return err
	}
	prog := startProgress(c, "writing %s to topic %s at %s", strings.Join(c.Args, ", "), o.topic, strings.Join(o.brokers, ","))
	defer prog.stopped()
	prog.reads(src, false)
	defer warnTorn(c, src)
	return pump(ctx, c, prog, watchAge(ctx, src, cfg, o.topic, c.Log), p, o.topic, limiter(o.topicFlags.rate))
}

// record saves the topics to a recording.
func (o *copying) record(ctx context.Context, c *cli.Call) error {
	if len(o.topics) == 0 {
		return c.Bad("topic", errors.New("no topic is given: --topic is where to write the files, --topics what to save to a recording"))
	}
	if len(c.Args) > 1 || filepath.Ext(c.Args[0]) != fileio.RecordingExt {
		return cli.Failf(cli.Usage, "with --topics, copy reads topics and writes one new FILE%s, got %s; --topic sends files to a topic", fileio.RecordingExt, strings.Join(c.Args, " "))
	}
	cfg, err := o.config(c)
	if err != nil {
		return err
	}
	opts, err := o.sourceFlags.options(c, cfg, nil)
	if err != nil {
		return err
	}
	p := startProgress(c, "recording %s in %s", o.from(o.brokers), c.Args[0])
	defer p.stopped()
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil {
		return kafkaError(err)
	}
	defer src.Close()
	p.reads(src, o.untilEnd)
	return record(ctx, c, p, src, c.Args[0], o.files.Limit)
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

// paced hands the records of src to put at the rate of due, until src ends.
func paced(ctx context.Context, p *progress, src stream.Source, due *rate.Limiter, put func(recs []stream.Record) error) error {
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
			k, err := len(rest), ctx.Err()
			if due != nil && err == nil {
				k = min(k, due.Burst())
				err = due.WaitN(ctx, k)
			}
			if err == nil {
				err = put(rest[:k])
			}
			if err != nil {
				return err
			}
			p.records.Add(uint64(k))
			rest = rest[k:]
		}
	}
}

// pump copies src to the topic until it ends.
func pump(ctx context.Context, c *cli.Call, prog *progress, src stream.Source, p *kafkaio.Producer, topic string, due *rate.Limiter) error {
	start := time.Now()
	err := paced(ctx, prog, src, due, func(recs []stream.Record) error {
		for i := range recs {
			recs[i].Topic = topic
		}
		if err := p.Produce(ctx, recs...); err != nil {
			return notThere(err, "--partitions N creates it, with N partitions")
		}
		return nil
	})
	n := prog.records.Load()
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
	say(c, "%d records written to topic %s in %.2f s (%.0f/s)", n, topic, took.Seconds(), float64(n)/took.Seconds())
	return nil
}

// notThere adds the remedy to an error about a topic that does not exist, or that the
// user may not write to.
func notThere(err error, remedy string) error {
	var unknown *kafkaio.UnknownTopicError
	if errors.As(err, &unknown) && unknown.Partition < 0 {
		return cli.Failf(cli.Unavailable, "%w, or the user may not write to it: %s", err, remedy)
	}
	return kafkaError(err)
}

// flush waits for up to 5 s for records in flight after an interruption.
func flush(p *kafkaio.Producer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return kafkaError(p.Flush(ctx))
}

// record writes src to a new recording until it ends, ctx ends, or there are
// limit records.
func record(ctx context.Context, c *cli.Call, p *progress, src stream.Source, path string, limit uint64) error {
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
		p.records.Store(n)
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
	size := int64(0)
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	say(c, "%d records in %s, %d bytes", n, path, size)
	return nil
}

// warnTorn warns of recordings that have ended too soon.
func warnTorn(c *cli.Call, src *fileio.Source) {
	for _, file := range src.Torn() {
		c.Log.Warn("the recording ends without a trailer: its writer was interrupted, or is still writing", "file", file)
	}
}
