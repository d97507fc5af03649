package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// modelFlags say which model topic to follow.
type modelFlags struct {
	trustFlags
	topic, name string
	alias       string
	wait        time.Duration
}

func (o *modelFlags) define(f *cli.Flags) {
	f.Group("Model", func() {
		f.StringVar(&o.topic, "model-topic", "", modelTopicUsage)
		f.StringVar(&o.name, "model-name", "", modelNameUsage)
		f.StringVar(&o.alias, "alias", "", aliasUsage)
		o.trustFlags.define(f)
		f.DurationVar(&o.wait, "topic-wait", time.Minute, topicWaitUsage)
	})
}

func (o *modelFlags) open(ctx context.Context, c *cli.Call, cfg kafkaio.Config) (*modeltopic.Subscriber, error) {
	if o.topic == "" {
		return nil, c.Bad("model-topic", errors.New("no topic is given"))
	}
	if err := errors.Join(badModelName(c, o.name), badAlias(c, o.alias)); err != nil {
		return nil, err
	}
	keys, err := o.trustedKeys(c)
	if err != nil {
		return nil, err
	}
	sub, err := modeltopic.NewSubscriber(ctx, modeltopic.SubscriberOptions{
		Config: cfg, Topic: o.topic, Model: o.name, Alias: o.alias, TrustedKeys: keys, TopicWait: o.wait,
	})
	return sub, o.failed(err)
}

// failed names the flag that has ended the wait for a topic or a model, and
// gives errors of kafkaio their exit codes.
func (o *modelFlags) failed(err error) error {
	if _, ok := errors.AsType[*kafkaio.UnknownTopicError](err); ok {
		err = fmt.Errorf("%w, and has not come in %v (--topic-wait)", err, o.wait)
	} else if _, ok := errors.AsType[*modeltopic.NoModelError](err); ok {
		err = fmt.Errorf("%w (--topic-wait)", err)
	}
	return kafkaError(err)
}

// ext is the suffix of files that hold a model.
const ext = ".ssm"

// define defines the flags that only model follow has.
func (s *subscribe) define(f *cli.Flags) {
	f.Group("Output", func() {
		f.StringVar(&s.save, "save", "", "follow: save every model to `DIR`, as NAME-VERSION"+ext+" and NAME"+ext)
		f.Uint64Var(&s.until, "until", 0, "follow: stop when this `VERSION` or a later one has come; 1 stops after the first update")
	})
	f.Group("Model", func() { f.DurationVar(&s.wait, "topic-wait", time.Minute, topicWaitUsage) })
}

// subscribe holds the settings of one call of model follow.
type subscribe struct {
	modelFlags
	*kafkaFlags
	json     bool
	save     string
	until    uint64
	c        *cli.Call
	received modeltopic.Received // for the current update
	promoted string              // text about who promoted it, if it is an alias's
}

func (s *subscribe) run(ctx context.Context) error {
	cfg, err := s.kafkaFlags.config(s.c)
	if err != nil {
		return err
	}
	if s.save != "" {
		if err := os.MkdirAll(s.save, 0o777); err != nil {
			return err
		}
	}
	prog := startProgress(s.c, "following the models of topic %s at %s", s.topic, strings.Join(s.brokers, ","))
	defer func() {
		if prog.stopped(); ctx.Err() != nil {
			say(s.c, "stopped after %d updates", prog.records.Load())
		}
	}()
	prog.counts("updates", 0)
	prog.shows("waiting for the next version")
	sub, err := s.modelFlags.open(ctx, s.c, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer sub.Close()
	var before modeltopic.Received
	var u *stream.Update
	defer crash.Recover(func() string {
		if u == nil {
			return "waiting for the model"
		}
		return fmt.Sprintf("having received version %d of model %s", u.Version, u.Model)
	})
	for {
		var err error
		u, err = sub.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return s.failed(err)
		}
		p, err := predictor.Decode(u.Payload)
		if err != nil {
			s.c.Log.Error("model update refused", "model", u.Model, "version", u.Version, "err", err)
			continue
		}
		prog.records.Add(1)
		prog.version.Store(u.Version)
		now := sub.Received()
		s.received, before = now.Sub(before), now
		s.promoted = ""
		if why, _, ok := sub.Promotion(); ok {
			if s.promoted = ", promoted by " + cli.Printable(why.By); why.Reason != "" {
				s.promoted += ": " + cli.Printable(why.Reason)
			}
		}
		if err := s.show(u, p); err != nil {
			return err
		}
		if s.until > 0 && u.Version >= s.until {
			return nil
		}
	}
}

func (s *subscribe) show(u *stream.Update, p *predictor.Predictor) error {
	if s.save != "" {
		for _, name := range []string{fmt.Sprintf("%s-%010d%s", u.Model, u.Version, ext), u.Model + ext} {
			if err := atomicfile.Write(filepath.Join(s.save, name), u.Payload); err != nil {
				return err
			}
		}
	}
	if s.json {
		l := newUpdateLine(u, p)
		l.Received = s.received
		return json.NewEncoder(s.c.Out).Encode(l)
	}
	_, err := fmt.Fprintf(s.c.Out, "%s version %d: %s after %d examples, %s, %d bytes%s%s%s\n",
		u.Model, u.Version, u.Learner, u.Examples, p.Info().Text, len(u.Payload), s.form(), recently(u.Evaluation), s.promoted)
	return err
}

// form says how the current update was received, or "" if without deltas.
func (s *subscribe) form() string {
	switch r := s.received; {
	case r.Deltas == 0:
		return ""
	case r.Fulls == 0 && r.Deltas == 1:
		return fmt.Sprintf(" by a delta of %d", r.Bytes)
	default:
		return fmt.Sprintf(" by %d full and %d delta updates of %d", r.Fulls, r.Deltas, r.Bytes)
	}
}

// updateLine is a line of model follow --json.
type updateLine struct {
	Model string `json:"model"`
	describe.Update
	Learner       string              `json:"learner"`
	Received      modeltopic.Received `json:"received"` // since the previous update
	Kind          string              `json:"kind"`
	Support       *int                `json:"support"`
	Preprocessing string              `json:"preprocessing"`
	Options       map[string]string   `json:"options"`
}

func newUpdateLine(u *stream.Update, p *predictor.Predictor) updateLine {
	info := p.Info()
	return updateLine{
		Model: u.Model, Update: describe.NewUpdate(u), Learner: u.Learner,
		Kind: string(info.Kind), Support: known(info.Support), Preprocessing: p.Preprocessing(), Options: p.Options(),
	}
}
