package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/app/status"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// train holds the settings of one call of the command train.
type train struct {
	sourceFlags
	codecFlags
	learnFlags
	kafkaFlags
	modelTopic, modelName string
	replace               bool
	maxRecordBytes        int
	fullEvery             int
	checkpoint            string
	interval              time.Duration
	every                 uint64
	retain                int
	record                string
	tolerance, dlq        string
	listen                string
	pprof                 bool
	stall                 time.Duration
	queue                 int
	shutdown              time.Duration

	c   *cli.Call
	cfg kafkaio.Config
	e   *engine.Engine
	run engine.RunConfig
	// again is the model that was published again at the start.
	again *stream.Update
	// closers end what start has opened, the last one first.
	closers []func() error
}

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Summary: "learn from topics, keep checkpoints, publish the model: the service",
		Text: `
The position in every partition is part of the checkpoint. After a crash at any
moment training goes on from the newest valid one and arrives at the same state,
to the bit, as if nothing had happened. SIGTERM writes a last checkpoint and
ends with exit code 0.`,
		Example: "streamsvm train --topics examples --codec libsvm --model-topic models --checkpoint ./state --listen 127.0.0.1:9100",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			var dry bool
			t.define(f)
			f.Group("Output", func() {
				f.BoolVar(&dry, "dry-run", false, "only try whether everything is there and allowed, the first records can be decoded, and the checkpoint fits; change nothing")
			})
			f.Check(t.check)
			return func(ctx context.Context, c *cli.Call) error {
				t.c = c
				if dry {
					return t.dryRun(ctx)
				}
				return t.serve(ctx)
			}
		},
	}
}

// define defines the settings of the service.
func (t *train) define(f *cli.Flags) {
	t.sourceFlags.define(f)
	t.codecFlags.define(f, "format of the records (default "+defaultCodec+")")
	f.Group("Input", func() {
		f.Choice(&t.tolerance, "tolerance", "none", []string{"none", "data", "all"}, "stop at the first record that cannot be used, go on, or go on even if it cannot be dead-lettered")
		f.StringVar(&t.dlq, "dlq", "", "send records that cannot be used to a topic with this `SUFFIX` (--dlq alone: .dlq)")
		f.Lookup("dlq").NoOptDefVal = ".dlq"
		f.IntVar(&t.queue, "queue", 65536, "`RECORDS` that ingest may run ahead, within 64 MiB of their values")
	})
	t.learnFlags.define(f)
	f.Group("Output", func() {
		f.StringVar(&t.modelTopic, "model-topic", "", "compacted `TOPIC` to publish the model to; created if it does not exist")
		f.StringVar(&t.modelName, "model-name", "model", "`NAME` of the model in the topic")
		f.BoolVar(&t.replace, "replace-model", false, "replace a model in the topic that does not come from these checkpoints")
		f.IntVar(&t.maxRecordBytes, "max-record-bytes", 900<<10, "`BYTES` of a record in the model topic; larger models are split")
		f.IntVar(&t.fullEvery, "full-every", 16, "publish a full model at least every `N` times, between them what has changed where that is less than half of it")
		f.StringVar(&t.checkpoint, "checkpoint", "", "`DIR` for checkpoints")
		f.DurationVar(&t.interval, "checkpoint-interval", 10*time.Second, "time between checkpoints, each followed by a publication; 0 sets none")
		f.Uint64Var(&t.every, "checkpoint-every", 0, "records between checkpoints; 0 sets none")
		f.IntVar(&t.retain, "checkpoint-retain", 3, "number of checkpoints to keep")
		f.StringVar(&t.record, "record", "", "write the records consumed to a recording `FILE`")
		f.StringVar(&t.listen, "listen", "", "`HOST:PORT` for the status page, /metrics, /healthz, /readyz and /version; without a HOST the loopback interface")
		f.BoolVar(&t.pprof, "pprof", false, "serve profiles of the process under /debug/pprof/ too")
		f.DurationVar(&t.stall, "stall-timeout", 45*time.Second, "/healthz fails when records wait and there has been no progress for so long")
		f.DurationVar(&t.shutdown, "shutdown-timeout", 25*time.Second, "time for the last checkpoint and publication")
	})
	t.kafkaFlags.define(f)
}

func (t *train) serve(ctx context.Context) (err error) {
	reg := metrics.NewRegistry(version.String)
	m := metrics.NewTrainer(reg)
	p := newProgress(t.c)
	page := status.New(status.About{
		Version: version.String, Learner: t.learner, Preset: t.preset, Topics: t.topics,
		ModelTopic: t.modelTopic, Model: t.modelName, Checkpoints: t.checkpoint,
	})
	srv := newServer(reg)
	srv.healthy = func() error { return page.Healthy(t.stall) }
	srv.mux.Handle("GET /{$}", page.Page(t.stall))
	if t.pprof {
		srv.profile()
	}
	defer srv.stop()
	if err := srv.start(t.c, t.listen); err != nil {
		return err
	}
	// Results are kept in the order in which start opens: close in reverse.
	defer func() {
		for i := len(t.closers) - 1; i >= 0; i-- {
			err = errors.Join(err, t.closers[i]())
		}
	}()
	if err := t.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return kafkaError(err)
	}
	if t.e.Counts().Consumed > 0 {
		p.resume(t.e)
	}
	if t.again != nil {
		m.Published(t.again, 0)
		page.Published(t.again, 0)
	}
	m.SetSource(t.run.Source)
	m.Consumed(t.e, 0)
	page.SetSource(t.run.Source)
	page.Consumed(t.e, 0)
	t.run.Observer = observers{p, m, page, logObserver{t.c.Log}}
	srv.ready.Store(true)

	src := &source{Source: t.run.Source}
	var res engine.Result
	if t.untilEnd && (t.e.Finished() || t.e.Counts().Consumed == 0) && !more(ctx, src) {
		// Nothing new since the stream was finished, or nothing yet: a warm-up
		// without examples would fix scale and options for those that come later.
		res.Ended = true
	} else {
		t.run.Source = src
		res, err = engine.Run(ctx, t.e, t.run)
	}
	srv.ready.Store(false)
	if err != nil {
		return kafkaError(err)
	}
	p.done(t.e)
	return t.summary(res)
}

// start opens everything, in the order in which a restart is safe: claim the
// checkpoints before reading them, so that no zombie adds one in between; load;
// publish again what may not have been published; store where a first start
// begins before consuming anything.
func (t *train) start(ctx context.Context) error {
	c := t.c
	learn, err := t.learnFlags.config(c)
	if err != nil {
		return err
	}
	if t.cfg, err = t.kafkaFlags.config(c); err != nil {
		return err
	}
	dec, err := t.codecFlags.open(c, learn.Task)
	if err != nil {
		return err
	}
	if t.checkpoint == "" && t.record != "" {
		c.Log.Warn("without --checkpoint a restart begins anew, and the recording must not exist then")
	}
	if t.fullEvery < 1 {
		return c.Bad("full-every", fmt.Errorf("%d, want at least 1", t.fullEvery))
	}
	t.run = engine.RunConfig{
		Decoder: dec, Model: t.modelName, FullEvery: t.fullEvery, Tolerance: engine.Tolerance(t.tolerance), CheckpointInterval: t.interval,
		CheckpointEvery: t.every, QueueRecords: t.queue, ShutdownTimeout: t.shutdown, Log: c.Log,
	}
	if t.run.Labels, err = t.learnFlags.join.decoder(c, &t.codecFlags, learn.Task); err != nil {
		return err
	}
	if t.e, err = engine.NewEngine(learn); err != nil {
		return cli.Fail(cli.Usage, err)
	}
	var snap *checkpoint.Snapshot
	var from stream.Offsets
	if t.checkpoint != "" {
		if t.run.Store, snap, err = openStore(ctx, c, t.checkpoint, t.retain); err != nil {
			return err
		}
	}
	if snap != nil {
		if err := t.e.Restore(snap); err != nil {
			return cli.Fail(cli.Config, err)
		}
		from, t.run.Version = snap.Header.Offsets, snap.Header.ModelVersion
		c.Log.Info("going on from a checkpoint", "examples", snap.Header.Examples, "state_hash", hash(snap.Header.StateHash))
	}
	if err := t.openPublisher(ctx, snap); err != nil {
		return err
	}
	if err := t.openRecording(snap); err != nil {
		return err
	}
	opts, err := t.sourceFlags.options(c, t.cfg, from)
	if err != nil {
		return err
	}
	if err := t.learnFlags.join.addTo(c, &opts); err != nil {
		return err
	}
	src, err := t.openSource(ctx, opts, snap)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, src.Close)
	t.run.Source, t.run.Start = src, src.Start()
	if err := t.openDeadLetters(ctx, snap); err != nil {
		return err
	}
	if t.run.Store != nil && snap == nil {
		return engine.First(ctx, t.e, t.run)
	}
	return nil
}

// openPublisher opens the model topic. The run before may have ended between
// storing a checkpoint and publishing its model: it is published again.
func (t *train) openPublisher(ctx context.Context, snap *checkpoint.Snapshot) error {
	if t.modelTopic == "" {
		return nil
	}
	if t.run.Store == nil {
		return t.c.Bad("model-topic", errors.New("it needs --checkpoint: the versions of a model go on from it after a restart"))
	}
	// Nothing is created for a run that has nothing to read.
	if len(t.topics) > 0 {
		if _, err := kafkaio.Partitions(ctx, t.cfg, t.reads(), t.wait, t.maxDown); err != nil {
			return err
		}
	}
	p, err := kafkaio.NewPublisher(ctx, kafkaio.PublisherOptions{
		Config: t.cfg, Topic: t.modelTopic, Model: t.modelName, MaxRecordBytes: t.maxRecordBytes, MaxDown: t.maxDown,
		DeltaRing: max(t.fullEvery, kafkaio.DefaultDeltaRing), // or compaction would drop deltas that are needed
	})
	if err != nil {
		return err
	}
	t.run.Publisher = p
	t.closers = append(t.closers, p.Close)
	if err := t.succeed(ctx, p, snap); err != nil {
		return err
	}
	if snap == nil {
		return nil
	}
	if t.again, err = engine.Republish(t.run, t.e, snap.Header); err != nil || t.again == nil {
		return err
	}
	return p.Publish(ctx, t.again)
}

// succeed makes sure that what is going to be published is newer, to the
// subscribers, than what the topic holds. That is not so if the model there
// comes from other checkpoints than these.
func (t *train) succeed(ctx context.Context, p *kafkaio.Publisher, snap *checkpoint.Snapshot) error {
	epoch, version := p.Last()
	if epoch == 0 || snap != nil && epoch < t.run.Store.Epoch() {
		return nil
	}
	if !t.replace {
		return cli.Failf(cli.Config, "topic %s holds version %d of model %s, which does not come from the checkpoints in %s: choose another --model-name, or --replace-model",
			t.modelTopic, version, t.modelName, t.checkpoint)
	}
	const most = 100000 // claims are cheap, but a damaged topic may ask for any number
	if epoch-t.run.Store.Epoch() > most {
		return cli.Failf(cli.Data, "topic %s holds model %s of epoch %d, which cannot be right", t.modelTopic, t.modelName, epoch)
	}
	for t.run.Store.Epoch() <= epoch {
		if _, err := t.run.Store.Claim(ctx); err != nil {
			return err
		}
	}
	t.run.Version = max(t.run.Version, version)
	return nil
}

// openRecording begins a recording, or goes on with it where the checkpoint
// says that it was.
func (t *train) openRecording(snap *checkpoint.Snapshot) error {
	if t.record == "" {
		return nil
	}
	var w *fileio.RecordWriter
	var err error
	pos := ""
	if snap != nil {
		for _, kv := range snap.Header.Meta {
			if kv[0] == engine.MetaRecording {
				pos = kv[1]
			}
		}
	}
	if pos == "" {
		w, err = fileio.CreateRecording(t.record)
	} else {
		var n int64
		if n, err = strconv.ParseInt(pos, 10, 64); err == nil {
			w, err = fileio.Reopen(t.record, n)
		}
	}
	if err != nil {
		return t.c.Bad("record", err)
	}
	t.run.Recorder = w
	t.closers = append(t.closers, func() error { return w.Close(t.e.Finished()) })
	return nil
}

// openDeadLetters opens the topics of dead letters; with tolerance none there
// are no letters.
func (t *train) openDeadLetters(ctx context.Context, snap *checkpoint.Snapshot) error {
	if t.dlq == "" || t.run.Tolerance == engine.TolerateNone {
		return nil
	}
	o := dlqOptions{cfg: t.cfg, topics: t.reads(), suffix: t.dlq, maxDown: t.maxDown, log: t.c.Log}
	if snap != nil {
		o.restored, o.from = true, snap.Header.Offsets
		for _, kv := range snap.Header.Meta {
			if kv[0] == engine.MetaDeadLetters {
				o.mark = kv[1]
			}
		}
	}
	d, err := newDeadLetters(ctx, o)
	if err != nil {
		return err
	}
	t.run.DeadLetters = d
	t.closers = append(t.closers, d.close)
	return nil
}

// summary says how the run ended.
func (t *train) summary(res engine.Result) error {
	if t.c.Quiet {
		return nil
	}
	h, err := t.e.Hash()
	if err != nil {
		return err
	}
	n := t.e.Counts()
	how := "stopped"
	if res.Ended {
		how = "the stream has ended"
	}
	joined := ""
	if t.e.Join() != nil {
		joined = fmt.Sprintf(" + %d joined + %d late", n.Joined, n.Late)
	}
	fmt.Fprintf(t.c.Err, "%s: %d records consumed = %d learned + %d sampled out + %d dead%s + %d waiting; model version %d; state hash %s\n",
		how, n.Consumed, n.Learned, n.SampledOut, n.Dead, joined, n.Pending, max(res.Version, t.run.Version), hash(h))
	printJoin(t.c.Err, t.e.Join())
	return nil
}
