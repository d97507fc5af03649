// Package demo is the command demo: broker, stream, training, checkpoints, model
// topic and predictions in one process.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/app/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/stream/synth"
	"github.com/streamsvm/streamsvm/trainer"
)

// What the demo runs on.
const (
	streamName    = "checkerboard"
	examplesTopic = "examples" // topics
	heldOutTopic  = "heldout"
	modelTopic    = "models"
	modelName     = "demo"
	holdEvery     = 6    // every 6th example is held out
	ahead         = 3000 // records that the producer may be ahead of the trainer
	lastTest      = 5000 // examples that the last model is tested on
	window        = 1000
)

// streamSet makes the board turn slowly.
var streamSet = map[string]string{"squares": "4", "rotation": "0.0000005"}

// Command returns the command. exit gives errors of kafkaio their exit codes.
func Command(exit func(error) error) *cli.Command {
	return &cli.Command{
		Name: "demo", Summary: "see the whole pipeline at work in a minute, on a built-in broker",
		Text: `
Runs a broker, a producer, training with checkpoints, a model topic and
predictions, all in this process and over the Kafka protocol. You need not
install anything, and it leaves nothing behind but a page with plots.`,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			d := &demo{set: cli.Pairs{}, exit: exit}
			f.Group("Demo", func() {
				f.Uint64Var(&d.count, "count", 60000, "number of examples; of generate, 0 never ends")
				f.Uint64Var(&d.seed, "seed", 1, "seed of all randomness")
				f.StringVar(&d.learner, "learner", "adaptive", "`NAME` of the learner; see streamsvm learners; replay compares a list such as scs,online,dsg")
				f.Suggest("learner", registry.Names())
				f.Var(d.set, "set", "set an option of the learner, or of a synthetic stream; repeatable")
				f.StringVar(&d.report, "report", "", "write a page with plots to `DIR`; demo makes a temporary one by default")
			})
			return func(ctx context.Context, c *cli.Call) error {
				d.c = c
				return d.run(ctx)
			}
		},
	}
}

// demo is one run of the demo. The producer, the trainers and the subscriber
// share nothing but the broker and what is printed.
type demo struct {
	count, seed     uint64
	learner, report string
	set             cli.Pairs
	c               *cli.Call
	exit            func(error) error

	start  time.Time
	dir    string
	kafka  kafkaio.Config
	learn  trainer.Options
	enc    codec.Codec
	watch  *watch
	engine *engine.Engine
	rate   float64 // examples learned a second
	hash   uint64
	tested float64 // accuracy of the last model on examples after the stream
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.c.Out, "%5.1f s  %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.count < 10000 {
		return d.c.Bad("count", fmt.Errorf("%d is less than 10000", d.count))
	}
	preset := ""
	if d.learner == "scs" {
		preset = "drift" // it has to follow the turning board
	}
	d.learn = trainer.Options{Learner: d.learner, Preset: preset, Set: d.set, Seed: d.seed, Task: algos.Classify, Window: window}
	if err := d.learn.Validate(); err != nil {
		return d.c.Bad("learner", err)
	}
	d.start = time.Now()
	if d.dir, err = os.MkdirTemp("", "streamsvm-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	b, err := broker.Start(broker.Options{DataDir: filepath.Join(d.dir, "broker"), Log: d.c.Log})
	if err != nil {
		return cli.Fail(cli.Unavailable, err)
	}
	defer b.Close()
	d.say("An embedded broker listens on %s.", b.Addr())
	// The library waits for topics and brokers by itself and says so; in here
	// that is of no interest.
	d.kafka = kafkaio.Config{Brokers: []string{b.Addr()}, Log: slog.New(slog.DiscardHandler)}
	if d.enc, err = codec.New("json", codec.Options{}); err != nil {
		return err
	}
	for _, t := range []string{examplesTopic, heldOutTopic} {
		if _, err := kafkaio.CreateTopic(ctx, d.kafka, kafkaio.TopicSpec{Name: t, Partitions: 1}); err != nil {
			return d.exit(err)
		}
	}
	d.watch = newWatch(d)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(crash.Task(func() error { return d.produce(gctx) }))
	g.Go(crash.Task(func() error { return d.train(gctx) }))
	g.Go(crash.Task(func() error { return d.subscribe(gctx) }))
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			return cli.Failf(cli.Temporary, "interrupted")
		}
		return d.exit(err)
	}
	return d.finish()
}

// produce writes the stream to the topics of examples to learn and of examples
// held out. It stays only a little ahead of the trainer, so that whoever
// predicts meets the board as it is when the model is made.
func (d *demo) produce(ctx context.Context) error {
	gen, err := synth.New(streamName, d.seed, streamSet)
	if err != nil {
		return err
	}
	p, err := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: d.kafka, Partition: kafkaio.Explicit})
	if err != nil {
		return err
	}
	defer p.Close()
	d.say("A producer writes %d examples of a drifting stream to the topic %q: a checkerboard that turns slowly.", d.count, examplesTopic)
	var batch []stream.Record
	// Record times are the example's number in milliseconds: all runs are alike.
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for learned, i := uint64(0), uint64(0); learned < d.count; i++ {
		topic := examplesTopic
		if i%holdEvery == holdEvery-1 {
			topic = heldOutTopic
		} else {
			learned++
		}
		var ex stream.Example
		gen.Next(&ex)
		value, err := d.enc.Append(nil, &ex)
		if err != nil {
			return err
		}
		batch = append(batch, stream.Record{Topic: topic, Time: begin.Add(time.Duration(i) * time.Millisecond), Value: value})
		if len(batch) < 500 && learned < d.count {
			continue
		}
		if err := p.Produce(ctx, batch...); err != nil {
			return err
		}
		batch = batch[:0]
		if err := d.watch.waitConsumed(ctx, int64(learned)-ahead); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// held is the number of examples held out.
func (d *demo) held() int64 { return int64((d.count - 1) / (holdEvery - 1)) }

// train learns from the topic; half-way it stops, and a second trainer goes on
// from the first one's checkpoint.
func (d *demo) train(ctx context.Context) error {
	learning := time.Now()
	var last uint64
	for _, stop := range []uint64{d.count / 2, d.count} {
		res, err := d.trainUntil(ctx, stop)
		if err != nil {
			return fmt.Errorf("trainer: %w", err)
		}
		last = res.Version
		if stop < d.count {
			d.say("The trainer has been stopped. Another one goes on from its checkpoint, %s.", d.watch.checkpoint())
		}
	}
	d.rate = float64(d.count) / time.Since(learning).Seconds()
	d.watch.end(last)
	var err error
	d.hash, err = d.engine.Hash()
	return err
}

// trainUntil is what the command train does, up to the given offset.
func (d *demo) trainUntil(ctx context.Context, end uint64) (trainer.Result, error) {
	return trainer.Run(ctx, trainer.Job{
		Options: d.learn,
		Kafka: kafkaio.SourceOptions{
			Config: d.kafka, Topics: []string{examplesTopic}, MaxWait: 20 * time.Millisecond,
			StopAt: stream.Offsets{{Topic: examplesTopic}: int64(end)},
		},
		Decoder:     d.enc,
		Checkpoints: trainer.Checkpoints{Dir: filepath.Join(d.dir, "checkpoints"), Every: 2500, Interval: -1},
		Models:      trainer.Models{Topic: modelTopic, Name: modelName, FullEvery: 1},
		Unfinished:  end < d.count,
		Hooks:       []trainer.Hook{d.watch},
		Log:         d.c.Log,
	})
}

// subscribe follows the model topic and predicts the examples held out, as a
// service elsewhere would; then it tests the last model on what comes next.
func (d *demo) subscribe(ctx context.Context) error {
	sub, err := modeltopic.NewSubscriber(ctx, modeltopic.SubscriberOptions{Config: d.kafka, Topic: modelTopic, Model: modelName, TopicWait: -1})
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	fctx, stop := context.WithCancel(ctx)
	live := predictor.Follow(fctx, sub, predictor.FollowOptions{OnUpdate: d.watch.updated, Log: d.c.Log})
	defer func() {
		stop()
		<-live.Done()
		sub.Close()
	}()
	if _, err := live.Wait(ctx); err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	src, err := kafkaio.NewSource(ctx, kafkaio.SourceOptions{
		Config: d.kafka, Topics: []string{heldOutTopic}, MaxWait: 20 * time.Millisecond,
		StopAt: stream.Offsets{{Topic: heldOutTopic}: d.held()},
	})
	if err != nil {
		return err
	}
	defer src.Close()
	if err := d.watch.score(ctx, src, d.enc, live); err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	v, err := d.watch.waitLast(ctx, live)
	if err != nil {
		return err
	}
	return d.test(v)
}

// test asks the last model about examples that follow those of the topics.
func (d *demo) test(v *predictor.Version) error {
	gen, err := synth.New(streamName, d.seed, streamSet)
	if err != nil {
		return err
	}
	gen.Skip(d.count + uint64(d.held()))
	right := 0
	for range lastTest {
		var ex stream.Example
		gen.Next(&ex)
		if v.Predict(ex.X) == ex.Y {
			right++
		}
	}
	d.tested = float64(right) / lastTest
	return nil
}
