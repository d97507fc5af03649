// Package demo adds the commands demo and broker. demo runs broker, stream, training,
// checkpoints, model topic and predictions in one process. Import it for its side
// effect.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/app/status"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/trainer"
)

// Settings of the demo.
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

func init() {
	contrib.Add(contrib.TryOut, func(w contrib.Wiring) []*cli.Command {
		return []*cli.Command{demoCommand(w.Exit), brokerCommand()}
	})
}

// demoCommand returns the command demo. exit gives errors of kafkaio their exit codes.
func demoCommand(exit func(error) error) *cli.Command {
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
				f.StringVar(&d.learner, "learner", "adaptive", "`NAME` of the learner; see streamsvm learners")
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

// demo is one run of the demo, and a hook of its trainers. Producer, trainers and
// subscriber share only the broker and the printed output.
type demo struct {
	count, seed     uint64
	learner, report string
	set             cli.Pairs
	c               *cli.Call
	exit            func(error) error

	start   time.Time
	dir     string
	kafka   kafkaio.Config
	learn   trainer.Options
	enc     codec.Codec
	history status.History
	engine  *engine.Engine
	took    time.Duration // of training
	tested  float64       // accuracy of the last model on examples after the stream

	mu          sync.Mutex
	changed     *sync.Cond
	consumed    int64
	tuned       bool   // the chosen settings have been printed
	last        uint64 // version; 0 until it is published
	saved       checkpoint.Header
	bytes       int64 // of the newest checkpoint
	checkpoints int
	versions    int
	marks       page.Marks // where versions were taken into use
	held        *eval.Prequential
	line        page.Series // accuracy of the subscriber
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
	d.start, d.changed, d.held = time.Now(), sync.NewCond(&d.mu), eval.New(false, window)
	d.line.Name, d.marks = fmt.Sprintf("last %d held out", window), page.Marks{Name: "new model", Tick: true}
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
	// The library logs that it waits for topics, which does not matter here.
	d.kafka = kafkaio.Config{Brokers: []string{b.Addr()}, Log: slog.New(slog.DiscardHandler)}
	if d.enc, err = codec.New("json", codec.Options{}); err != nil {
		return err
	}
	for _, t := range []string{examplesTopic, heldOutTopic} {
		if _, err := kafkaio.CreateTopic(ctx, d.kafka, kafkaio.TopicSpec{Name: t, Partitions: 1}); err != nil {
			return d.exit(err)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{d.produce, d.train, d.subscribe} {
		g.Go(crash.Task(func() error { return part(gctx) }))
	}
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			return cli.Failf(cli.Temporary, "interrupted")
		}
		return d.exit(err)
	}
	return d.finish()
}

// wait waits until done, which is called under the lock, returns true.
func (d *demo) wait(ctx context.Context, done func() bool) error {
	stop := context.AfterFunc(ctx, crash.Func(func() {
		d.mu.Lock() // or the signal could come between the check below and Wait
		d.changed.Broadcast()
		d.mu.Unlock()
	}))
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !done() && ctx.Err() == nil {
		d.changed.Wait()
	}
	return ctx.Err()
}

// produce writes the stream to the topics of examples to learn and of examples
// held out. It stays only a little ahead of the trainer, so that the subscriber
// predicts examples of about the time at which its model was made.
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
	// Record times are the example's number in milliseconds, so that all runs are alike.
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
		if err := d.wait(ctx, func() bool { return d.consumed >= int64(learned)-ahead }); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// heldOut is the number of examples held out.
func (d *demo) heldOut() int64 { return int64((d.count - 1) / (holdEvery - 1)) }

// train learns from the topic. Half-way it stops, and a second trainer continues
// from the checkpoint of the first.
func (d *demo) train(ctx context.Context) error {
	begin := time.Now()
	for _, end := range []uint64{d.count / 2, d.count} {
		res, err := trainer.Run(ctx, trainer.Job{
			Options: d.learn,
			Kafka: kafkaio.SourceOptions{
				Config: d.kafka, Topics: []string{examplesTopic}, MaxWait: 20 * time.Millisecond,
				StopAt: stream.Offsets{{Topic: examplesTopic}: int64(end)},
			},
			Decoder:     d.enc,
			Checkpoints: trainer.Checkpoints{Dir: filepath.Join(d.dir, "checkpoints"), Every: 2500, Interval: -1},
			Models:      trainer.Models{Topic: modelTopic, Name: modelName, FullEvery: 1},
			Unfinished:  end < d.count,
			Hooks:       []trainer.Hook{d, &d.history},
			Log:         d.c.Log,
		})
		if err != nil {
			return fmt.Errorf("trainer: %w", err)
		}
		if end < d.count {
			d.say("The trainer has been stopped. Another one continues from its checkpoint, %d bytes after %d examples.", d.bytes, d.saved.Examples)
			continue
		}
		d.mu.Lock()
		d.took, d.last = time.Since(begin), res.Version
		d.changed.Broadcast()
		d.mu.Unlock()
	}
	return nil
}

// Consumed implements trainer.HookConsumed.
func (d *demo) Consumed(e *engine.Engine, _ int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine, d.consumed = e, int64(e.Counts().Consumed)
	d.changed.Broadcast()
	for _, r := range e.Tuned() {
		if r.Chosen && !d.tuned {
			d.tuned = true
			d.say("The trainer has tried %d settings on the first examples and chosen %s.", len(e.Tuned()), r.Options)
		}
	}
}

// Checkpointed implements trainer.HookCheckpointed.
func (d *demo) Checkpointed(_ string, h checkpoint.Header, bytes int64, _ time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saved, d.bytes = h, bytes
	d.checkpoints++
}

// subscribe follows the model topic and predicts the examples held out, as a
// service elsewhere would. Then it tests the last model on the examples after them.
func (d *demo) subscribe(ctx context.Context) error {
	sub, err := modeltopic.NewSubscriber(ctx, modeltopic.SubscriberOptions{Config: d.kafka, Topic: modelTopic, Model: modelName, TopicWait: -1})
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	fctx, stop := context.WithCancel(ctx)
	live := predictor.Follow(fctx, sub, predictor.FollowOptions{OnUpdate: d.updated, Log: d.c.Log})
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
		StopAt: stream.Offsets{{Topic: heldOutTopic}: d.heldOut()},
	})
	if err != nil {
		return err
	}
	defer src.Close()
	var recs []stream.Record
	for err == nil {
		if recs, err = src.Fetch(ctx, recs[:0]); err == nil {
			err = d.score(recs, live.Current())
		}
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("subscriber: %w", err)
	}
	if err := d.wait(ctx, func() bool { return d.last > 0 && live.Current().Update.Version >= d.last }); err != nil {
		return err
	}
	gen, err := synth.New(streamName, d.seed, streamSet)
	if err != nil {
		return err
	}
	gen.Skip(d.count + uint64(d.heldOut()))
	for range lastTest {
		var ex stream.Example
		if gen.Next(&ex); live.Current().Predict(ex.X) == ex.Y {
			d.tested += 1. / lastTest
		}
	}
	return nil
}

// updated is called when the subscriber has a new model.
func (d *demo) updated(v *predictor.Version) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.versions++; d.versions == 1 {
		d.say("A subscriber has its first model and predicts examples that are held out from training.")
		d.say("%8s %18s %26s %30s", "version", "examples learned", "accuracy, last 1000 before", "subscriber's accuracy, last")
		d.say("%8s %18s %26s %30s", "", "", "learning from them", "1000 held out")
	}
	d.marks.At = append(d.marks.At, float64(v.Update.Examples))
	_, held := d.held.Accuracy()
	for _, m := range v.Update.Evaluation {
		if m.Name == "prequential_accuracy_window" {
			d.say("%8d %18d %26s %30s", v.Update.Version, v.Update.Examples, eval.Percent(m.Value), eval.Percent(held))
		}
	}
	d.changed.Broadcast()
}

// score predicts held-out examples.
func (d *demo) score(recs []stream.Record, v *predictor.Version) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range recs {
		var ex stream.Example
		if err := d.enc.Decode(recs[i].Value, &ex); err != nil {
			return stream.At(&recs[i], err)
		}
		d.held.Add(v.Decision(ex.X), ex.Y)
		if n := d.held.Examples(); n%50 == 0 {
			_, recent := d.held.Accuracy()
			d.line.Add(float64(n*(holdEvery-1)), recent)
		}
	}
	return nil
}

// finish prints the summary and writes the report.
func (d *demo) finish() error {
	e := d.engine
	hash, err := e.Hash()
	if err != nil {
		return err
	}
	n, info := e.Counts(), e.Predictor().Info()
	all, recent := e.Prequential().Accuracy()
	heldAll, heldRecent := d.held.Accuracy()
	p := e.Prequential()
	rows := [][]string{
		{"examples", fmt.Sprintf("%d read from the topic = %d learned + %d sampled out + %d refused", n.Consumed, n.Learned, n.SampledOut, n.Dead)},
		{"accuracy while learning", fmt.Sprintf("%s over all, %s over the last %d, each predicted before it was learned", eval.Percent(all), eval.Percent(recent), window)},
		{"accuracy of the subscriber", fmt.Sprintf("%s over all %d held out, %s over the last %d, with the model of the moment", eval.Percent(heldAll), d.held.Examples(), eval.Percent(heldRecent), window)},
		{"accuracy of the last model", fmt.Sprintf("%s on the next %d examples (always the more frequent class: %s)", eval.Percent(d.tested), lastTest, eval.Percent(float64(slices.Max(p.Counts()))/float64(p.Examples())))},
		{"model", fmt.Sprintf("%s, %d support vectors, learned by %s", info.Text, info.Support, d.learner)},
		{"model versions", fmt.Sprintf("%d published, %d taken into use by the subscriber without a pause", d.last, d.versions)},
		{"checkpoints", fmt.Sprintf("%d written, the last one %d bytes; training was stopped and resumed once", d.checkpoints, d.bytes)},
		{"speed", fmt.Sprintf("%.0f examples/s from the topic to the model, everything else in the same process", float64(d.count)/d.took.Seconds())},
		{"state hash", fmt.Sprintf("%016x: run the demo again, it will be the same", hash)},
	}
	dir := d.report
	if dir == "" {
		if dir, err = os.MkdirTemp("", "streamsvm-report-"); err != nil {
			return err
		}
	}
	held := page.Prequential(false, " of the subscriber")
	held.Caption = "The subscriber predicts examples held out from training with the model it has at that moment."
	held.Series, held.Marks = []page.Series{d.line}, []page.Marks{d.marks}
	answers, sections := d.history.Quality(status.Take(e), "")
	path, err := page.Write(dir, &page.Page{
		Title:   "streamsvm demo",
		Lead:    "A producer wrote a drifting stream to a Kafka topic. A trainer learned from it and published models to another topic. A subscriber took each one into use and predicted examples held out from training.",
		Answers: answers,
		Sections: append(sections, page.Section{ID: "demo", Title: "Subscriber", Charts: []page.Chart{held},
			Tables: []page.Table{{Title: "Summary", Rows: rows}}}),
		Foot: version.Text(),
	})
	if err != nil {
		return err
	}
	d.say("Done.\n")
	for _, r := range rows {
		fmt.Fprintf(d.c.Out, "  %-27s %s\n", r[0], r[1])
	}
	fmt.Fprintf(d.c.Out, "\nPlots: %s\n%s", path, next)
	return nil
}

const next = `
The same with commands of your own, in several terminals:
  streamsvm broker --data-dir ./broker-data
  streamsvm generate checkerboard --count 100000 --topic examples --partitions 4 --rate 5000
  streamsvm train --topics examples --model-topic models --checkpoint ./state
  streamsvm model follow --model-topic models
  streamsvm generate checkerboard --count 5 --skip 200000 --codec json | streamsvm predict --model-topic models
Or on a file: streamsvm replay FILE.libsvm.gz
`
