package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/app/status"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// predict holds the settings of one call of the command predict.
type predict struct {
	modelFlags
	sourceFlags
	codecFlags
	kafkaFlags
	sessionFlags
	outgoing
	signFlags
	adminFlags
	modelFile, output      string
	predictions, positions string
	listen                 string
	tombstones             string
	ready                  *atomic.Bool  // there is a model to answer requests with
	limits                 *admit.Limits // of requests
	maxBody                int64
	maxRows                int
	explain                int
	threshold              float64
	shadow, shadowTopic    string
	// Of a shadow: where it begins, and where it ends, if not nil.
	from, until stream.Offsets

	c       *cli.Call
	prog    *progress
	cfg     kafkaio.Config
	last    atomic.Pointer[fileScorer] // the Scorer, once there is a model
	header  *csvHeader                 // of the csv file that is read; nil without
	current func() *predictor.Version  // nil before there is a model
	m       *metrics.Predictor
	reg     prometheus.Registerer
	page    status.Serving

	isShadow      bool
	shadowMetrics *metrics.Predictor
	started       time.Time
	counts        struct{ requests, predictions, refused, skipped atomic.Uint64 }
	at            atomic.Pointer[stream.Offsets] // how far topics have been scored; nil without topics

	refused int
	skipped int               // tombstones
	quality *eval.Prequential // of the predictions whose label is known
	right   uint64            // correct predictions of a classifier
}

func predictCommand() *cli.Command {
	return &cli.Command{
		Name: "predict", Args: "[FILE...]", Summary: "score records with a model: from files, standard input, a topic, or over HTTP",
		Text: `
Scores records with the model of --model-topic, and switches to each newer
version without a pause; or with the model of a file. The records come from a
topic, over HTTP, from files or from standard input. The model knows their
format, so the flags of train need not be repeated.

The first of these that is given is the input: --topics, whose predictions go to
--predictions-topic; --listen, which serves /predict and the Open Inference
Protocol at /v2/models/NAME/infer; the FILEs; standard input. Records need no
labels. If they have some, the accuracy is printed at the end.

The model determines format, labels, number of features and names of columns.
JSON is understood in any case. Answers use the labels of the training data. A
dense vector of the wrong length is an error of its record. Columns of csv files
are matched by name; unknown ones are ignored.

The probability is that of the positive label, the second one of --labels. It is
null if it is not known: the trainer has compared fewer than 200 predictions
with their labels, or was too old to estimate probabilities. The label is
positive if the decision is not negative, which is not quite the same as a
probability of at least ½. With --threshold P it is positive if the probability
is at least P, and an example without a probability is an error.

With --group, any number of equal processes share the partitions of --topics.
Predictions and positions are written in one transaction: consumers that read
committed records see exactly one prediction for each record, even if processes
are killed or paused.

With --alias, the model is the version that the alias points to, until
streamsvm model promote or rollback moves it, rather than the newest. With
--shadow, a second alias scores the same records of --topics. Its predictions go
to --shadow-topic at their own pace and never hold up the others. With
--trusted-keys, versions without a signature by one of the keys are refused, and
the previous version stays in use.

While the topic holds no model, the command reports now and then what it holds
instead; after --topic-wait it exits with code 69. For a service that starts
before its trainer, use --topic-wait -1s.`,
		Example: `
streamsvm predict --model-topic models --codec libsvm < new.libsvm
streamsvm predict --model-topic models --topics examples --predictions-topic scored
streamsvm predict --model-topic models --topics examples --predictions-topic scored \
    --group scorers
streamsvm predict --model-topic models --alias champion --listen 127.0.0.1:8080
streamsvm predict --model model.ssm --listen 127.0.0.1:8080
curl -d '{"x":[0.5,1.25]}' http://127.0.0.1:8080/predict`,
		Common:  []string{"brokers", "model-topic", "alias", "model", "topics", "predictions-topic", "group", "listen", "codec", "threshold", "output", "config"},
		MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			p := &predict{}
			p.modelFlags.define(f)
			f.Group("Model", func() {
				f.StringVar(&p.modelFile, "model", "", modelFileUsage)
			})
			f.Group("Input", func() {
				f.StringSliceVar(&p.topics, "topics", nil, topicsUsage)
				f.StringVar(&p.start, "start", "earliest", startUsage)
				f.BoolVar(&p.untilEnd, "until-end", false, untilEndUsage)
				defineTombstones(f, &p.tombstones)
				f.Float64Var(&p.rate, "rate-limit", 0, rateLimitUsage)
				f.StringVar(&p.positions, "positions", "", "`FILE` that keeps the positions across restarts")
				f.StringVar(&p.group, "group", "", groupUsage)
				f.StringVar(&p.listen, "listen", "", listenUsage)
				p.adminFlags.define(f)
				p.signFlags.define(f)
				f.Int64Var(&p.maxBody, "max-body-bytes", 16<<20, "largest request accepted")
			})
			p.codecFlags.define(f)
			f.Group("Output", func() {
				f.StringVar(&p.predictions, "predictions-topic", "", predictionsUsage)
				p.outgoing.define(f)
				f.Float64Var(&p.threshold, "threshold", 0, "answer the positive label if its probability is at least `P`; by default if the decision is not negative")
				f.IntVar(&p.explain, "explain", 0, "add the contributions of the `K` fields that matter most to each prediction in JSON")
				f.Choice(&p.output, "output", "json", []string{"json", "label", "decision", "probability"}, "form of predictions on standard output")
			})
			p.sessionFlags.define(f)
			f.Group("Shadow", func() {
				f.StringVar(&p.shadow, "shadow", "", "also score the records of --topics with the version of the alias `NAME`")
				f.StringVar(&p.shadowTopic, "shadow-topic", "", "`TOPIC` for the shadow's predictions")
			})
			p.kafkaFlags.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				p.c = c
				return p.serve(ctx)
			}
		},
	}
}

func (p *predict) serve(ctx context.Context) error {
	reg := metrics.NewRegistry(version.String)
	p.m, p.reg = metrics.NewPredictor(reg), reg
	if p.shadow != "" {
		p.shadowMetrics = metrics.NewShadow(reg)
	}
	decoder := func() stream.Decoder {
		if c := p.codec(); c != nil {
			return c
		}
		return nil
	}
	metrics.RegisterFields(reg, decoder)
	p.page.Begin(version.String, p.what(), decoder)
	srv := newServer(reg)
	srv.drain = 25 * time.Second // Kubernetes kills after 30 s by default
	defer srv.stop()
	err := p.check()
	if err != nil {
		return err
	}
	if p.cfg, err = p.kafkaFlags.config(p.c); err != nil {
		return err
	}
	if err := p.schemaFlags.connect(p.c, p.cfg.TLS, nil); err != nil {
		return err
	}
	// The server answers while the command waits for the first model, or a service
	// that starts before its trainer would look dead.
	p.ready = &srv.ready
	p.started = time.Now()
	srv.bound(admit.Options{Bytes: p.inFlight()})
	p.limits = srv.limits
	for pattern, handler := range p.routes() {
		srv.mux.Handle(pattern, handler)
	}
	srv.mux.Handle("GET /{$}", srv.limits.Page(http.HandlerFunc(p.page.Page)))
	srv.mux.HandleFunc("GET /chart.js", page.Script)
	if p.listen != "" && p.modelFlags.topic != "" {
		a, err := newAliases(ctx, p.c, p.cfg, p.kafkaFlags, p.trustFlags, p.signFlags, p.modelFlags.topic, p.followed)
		if err != nil {
			return err
		}
		board, err := a.serve(srv.mux, &p.adminFlags)
		if err != nil {
			return err
		}
		p.page.Show(board)
	}
	if err := srv.start(p.c, p.listen); err != nil {
		return err
	}
	offline := len(p.topics) == 0 && p.modelFile != ""
	p.prog = startProgress(p.c, "predicting %s%s%s; model of %s", p.what(), unless(p.group == "", " in group "+p.group),
		unless(offline, ", at "+strings.Join(p.brokers, ",")), cmp.Or(p.modelFile, "topic "+p.modelFlags.topic))
	defer p.prog.stopped()
	p.prog.shows("waiting for a model")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if p.current, err = p.follow(ctx, cancel); err == nil {
		err = p.modelled()
	}
	if err != nil {
		if ctx.Err() == nil || p.ended(ctx) != nil {
			return err
		}
		if p.listen == "" && (len(p.topics) == 0 || p.untilEnd) {
			return cli.Failf(cli.Temporary, "interrupted before there was a model")
		}
		return nil
	}
	srv.ready.Store(true)
	v := p.current()
	p.prog.version.Store(v.Update.Version)
	p.prog.shows("starting")
	say(p.c, "model %s%s of learner %s; records as %s", p.modelName(v), unless(v.Update.Version == 0, fmt.Sprintf(" version %d", v.Update.Version)), v.Learner(), p.codec().Name())
	switch {
	case p.group != "":
		err = p.scoreGroup(ctx)
	case len(p.topics) > 0:
		err = p.scoreTopics(ctx)
	case p.listen != "":
		say(p.c, "POST http://%s/predict", srv.addr)
		p.prog.serves(p)
		<-ctx.Done()
		p.prog.done()
	default:
		err = p.files(ctx)
	}
	p.prog.stopped()
	if len(p.topics) > 0 {
		say(p.c, "%s, %d of them could not be scored; model version %d", spell.Count(p.prog.records.Load(), "record"), p.refused, p.prog.version.Load())
	}
	if ctx.Err() != nil {
		if cause := p.ended(ctx); cause != nil || len(p.topics) > 0 || p.listen != "" {
			return cause
		}
		return cli.Failf(cli.Temporary, "interrupted")
	}
	if err != nil {
		return kafkaError(err)
	}
	return p.summary()
}

// modelled prepares for the first model. Later ones share its task and classes.
func (p *predict) modelled() error {
	v := p.current()
	switch {
	case v.Classes() > 2 && p.threshold > 0:
		return p.c.Bad("threshold", errors.New("it is for two classes, the model knows more"))
	case v.Task() == algos.Regress && p.threshold > 0:
		return p.c.Bad("threshold", errors.New("the model predicts numbers, which have no probability"))
	}
	s, err := p.pin(nil)
	if err != nil {
		return err
	}
	p.quality = newQuality(v.Task(), v.Classes(), 1000)
	if p.listen != "" { // or nobody sees the page
		p.page.Measured(p.quality, s.Labels())
	}
	return nil
}

// followed returns the name of the model, without an alias; "" while it is not
// known.
func (p *predict) followed() string {
	name := p.modelFlags.name
	if name == "" && p.last.Load() != nil {
		name = p.current().Update.Model
	}
	name, _ = modeltopic.SplitName(name)
	return name
}

// what describes the input to score.
func (p *predict) what() string {
	switch {
	case len(p.topics) > 0:
		return fmt.Sprintf("from %s to %s", strings.Join(p.topics, ", "), p.predictions)
	case p.listen != "":
		return "what is posted to /predict"
	}
	return "records of " + cmp.Or(strings.Join(p.c.Args, ", "), "standard input")
}

// ended returns why ctx has ended, nil if a signal has ended it.
func (p *predict) ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return kafkaError(cause)
	}
	return nil
}

// check returns an error if the settings are invalid, before the wait for a model.
func (p *predict) check() error {
	c := p.c
	// The task is not known yet, but errors do not depend on it.
	if err := p.codecFlags.verify(c, c.Args...); err != nil {
		return err
	}
	if p.maxBody < 1 {
		return c.Bad("max-body-bytes", fmt.Errorf("%d is less than 1", p.maxBody))
	}
	if p.explain < 0 {
		return c.Bad("explain", fmt.Errorf("%d is negative", p.explain))
	}
	if c.Given("threshold") && !(p.threshold > 0 && p.threshold <= 1) {
		return c.Bad("threshold", fmt.Errorf("%v is not a probability above 0", p.threshold))
	}
	if err := badListen(c, p.listen); err != nil {
		return err
	}
	if p.listen != "" && len(p.topics) == 0 && contrib.Serve == nil {
		return c.Bad("listen", errors.New("this build does not serve predictions over HTTP"))
	}
	if err := p.adminFlags.check(c, p.listen, p.modelFlags.topic); err != nil {
		return err
	}
	if p.modelFile != "" {
		if err := alone(c, "--model-topic", "model-name", "alias", "shadow", "trusted-keys"); err != nil {
			return err
		}
	}
	if len(p.topics) == 0 {
		for _, path := range c.Args {
			if _, err := os.Stat(path); path != "-" && err != nil {
				return err
			}
		}
		return alone(c, "--topics", append(sessionNames, "predictions-topic", "positions", "group", "until-end", "shadow", "shadow-topic", "headers", "keep", "cloudevents", "errors-topic")...)
	}
	if err := p.checkShadow(); err != nil {
		return err
	}
	switch {
	case p.predictions == "":
		return c.Bad("predictions-topic", errors.New("no topic is given"))
	case slices.Contains(p.topics, p.predictions):
		return c.Bad("predictions-topic", fmt.Errorf("%s is scored too", p.predictions))
	case p.modelFlags.topic != "" && (p.predictions == p.modelFlags.topic || slices.Contains(p.topics, p.modelFlags.topic)):
		return c.Bad("model-topic", fmt.Errorf("%s holds what is scored, or the predictions", p.modelFlags.topic))
	}
	if err := p.outgoing.check(p); err != nil {
		return err
	}
	if _, err := readPositions(p.positions); err != nil {
		return c.Bad("positions", err)
	}
	p.merge, p.outOfRange = string(kafkaio.MergeArrival), string(kafkaio.OutOfRangeEarliest)
	p.sourceFlags.wait = p.modelFlags.wait
	if p.group == "" {
		return errors.Join(append(p.sourceFlags.check(c), alone(c, "--group", sessionNames...))...)
	}
	switch {
	case p.positions != "":
		return c.Bad("positions", errors.New("the group keeps them"))
	case p.untilEnd:
		return c.Bad("until-end", errors.New("a group has no end"))
	case p.rate != 0:
		return c.Bad("rate-limit", errors.New("a group is not slowed down: give it fewer processes"))
	}
	_, err := p.sessionFlags.options(c, kafkaio.Config{Brokers: []string{"check:9092"}}, &p.sourceFlags)
	return err
}

// inFlight bounds the bytes of requests and answers held at a time: beyond it, requests get
// status 503. A request and its answer have to fit.
func (p *predict) inFlight() int64 {
	return max(admit.DefaultBytes, 4*min(p.maxBody, math.MaxInt64/4))
}

// follow reads the model from a file, or waits for the first one in a topic. It returns
// a function that returns the newest version. If following fails later on, it ends the
// command with cancel.
func (p *predict) follow(ctx context.Context, cancel context.CancelCauseFunc) (func() *predictor.Version, error) {
	if p.modelFile != "" {
		if p.modelFlags.topic != "" {
			return nil, p.c.Bad("model", errors.New("it cannot be combined with --model-topic"))
		}
		model, err := describe.ReadModel(p.modelFile)
		if err != nil {
			return nil, err
		}
		v := &predictor.Version{Predictor: model.Compile()}
		p.page.Updated(v, 0)
		return func() *predictor.Version { return v }, nil
	}
	if p.modelFlags.topic == "" {
		return nil, p.c.Bad("model-topic", errors.New("neither --model-topic nor --model is given"))
	}
	sub, err := p.modelFlags.open(ctx, p.c, p.cfg)
	if err != nil {
		return nil, err
	}
	p.m.Follows(sub.Untrusted)
	var before modeltopic.Received
	live := predictor.Follow(ctx, sub, predictor.FollowOptions{Log: p.c.Log, OnUpdate: func(v *predictor.Version) {
		now := sub.Received()
		r := now.Sub(before)
		before = now
		data, err := v.AppendBinary(nil)
		if err != nil {
			p.c.Log.Error("model cannot be encoded", "err", err)
		}
		p.m.Updated(&v.Update, r.Bytes)
		p.page.Updated(v, len(data))
		p.c.Log.Info("model in use", "model", v.Update.Model, "version", v.Update.Version)
	}})
	crash.Go(func() {
		<-live.Done()
		sub.Close()
		cancel(p.modelFlags.failed(live.Err()))
	})
	if _, err = live.Wait(ctx); err != nil {
		<-live.Done() // then Err has the reason, which ctx may lack
		return nil, p.modelFlags.failed(live.Err())
	}
	return live.Current, nil
}

// summary prints how good the predictions were, if that is known.
func (p *predict) summary() error {
	if n := p.quality.Examples(); !p.c.Quiet && n > 0 {
		s := p.quality.Summary()
		if s.Classes != nil {
			fmt.Fprintf(p.c.Err, "accuracy %s, balanced accuracy %s on %d labelled examples\n", eval.Percent(s.Accuracy), eval.Percent(s.BalancedAccuracy), n)
		} else if s.MAE != nil {
			fmt.Fprintf(p.c.Err, "mean absolute error %s, R2 %s on %d labelled examples\n", decimal(*s.MAE), decimal(*s.R2), n)
		} else {
			accuracy := float64(p.right) / float64(n)
			fmt.Fprintf(p.c.Err, "accuracy %s, AUC %s%s on %d labelled examples\n", eval.Percent(accuracy), decimal(s.AUC), probabilities(", ", &s.Probability), n)
		}
	}
	if last := p.last.Load(); last != nil && !p.c.Quiet {
		fields, events, _ := codec.FieldCounts(last.Codec())
		for _, f := range fields {
			empty := slices.ContainsFunc(fields, func(list codec.FieldCount) bool {
				return list.Missing < events && strings.HasPrefix(f.Name, list.Name+".")
			})
			if events > 0 && f.Missing == events && !empty {
				fmt.Fprintf(p.c.Err, "warning: no record has the field %s, which the model knows: see whether it has another name\n", f.Name)
			}
		}
	}
	if p.skipped > 0 && !p.c.Quiet {
		fmt.Fprintf(p.c.Err, "%s skipped\n", spell.Count(p.skipped, "tombstone"))
	}
	if p.refused > 0 && p.errors.topic != "" {
		if !p.c.Quiet {
			fmt.Fprintf(p.c.Err, "%s could not be scored; see topic %s\n", spell.Count(p.refused, "record"), p.errors.topic)
		}
	} else if p.refused > 0 {
		return cli.Failf(cli.Data, "%s could not be scored", spell.Count(p.refused, "record"))
	}
	return nil
}
