package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// delete deletes a model with its aliases, or one version, which the topic keeps if it is
// the newest or an alias points to it, and returns a sentence about that.
func (o *versions) delete(ctx context.Context, c *cli.Call) (string, error) {
	t, err := o.contents(ctx, c, 0)
	if err != nil {
		return "", err
	}
	m := held(t, o.name)
	own := m != nil && len(m.Updates) > 0 && (o.version == 0 || m.Newest != nil && m.Newest.Version == o.version)
	var aliases []string
	for i := range t.Models {
		model, alias := modeltopic.SplitName(t.Models[i].Name)
		if u := t.Models[i].Newest; model == o.name && alias != "" && u != nil && (o.version == 0 || u.Version == o.version) {
			aliases = append(aliases, alias)
		}
	}
	what := "model " + o.name
	if o.version > 0 {
		what = fmt.Sprintf("version %d of model %s", o.version, o.name)
	}
	switch {
	case !own && len(aliases) == 0:
		return "", c.Bad("version", fmt.Errorf("%s is not the newest, and no alias stands for it: compaction of topic %s removes it by itself", what, o.topic))
	case len(aliases) > 0 && !o.force:
		return "", cli.Failf(cli.Data, "%s is what %s stands for: promote another version first, or delete both with --yes", what, strings.Join(aliases, ", "))
	case own && !o.force && running(m.Claim):
		return "", cli.Failf(cli.Data, "%s belongs to a trainer, %s, since %s: stop it first, and give --yes if it has ended. A trainer that runs would be fenced", what, m.Claim.By, m.Claim.At.Format(time.RFC3339))
	}
	for _, alias := range aliases {
		o.alias = strings.TrimSuffix(alias, "-1")
		w, err := o.promoter(ctx, c)
		if err == nil {
			err = errors.Join(w.Delete(ctx, o.version), w.Close())
		}
		if err != nil {
			return "", kafkaError(err)
		}
	}
	done := fmt.Sprintf("%s is deleted from topic %s", what, o.topic)
	if len(aliases) > 0 {
		done += ", also as " + strings.Join(aliases, ", ")
	}
	cfg, err := o.kafkaFlags.config(c)
	if !own || err != nil {
		return done, err
	}
	p, err := modeltopic.NewPublisher(ctx, modeltopic.PublisherOptions{Config: cfg, Topic: o.topic, Model: o.name, MaxDown: patience})
	if err == nil {
		err = errors.Join(p.Delete(ctx), p.Close())
	}
	return done + "; a trainer that goes on from its checkpoints publishes it again", kafkaError(err)
}

// running reports whether the trainer that has claimed a model may still run. It can tell
// that a process has ended only if it ran on this machine.
func running(c modeltopic.Claim) bool {
	host, err := os.Hostname()
	rest, here := strings.CutPrefix(c.By, host+" process ")
	var pid int
	if _, err2 := fmt.Sscan(rest, &pid); c.Owner == "" || err != nil || err2 != nil || !here {
		return c.Owner != ""
	}
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
