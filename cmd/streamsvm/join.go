package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/trainer"
)

// joinFlags say where labels come from if they do not come with the examples.
type joinFlags struct {
	by, topic, field, missing string
	window                    int
}

// used reports whether labels are joined.
func (o *joinFlags) used() bool { return o.by != "none" && o.by != "" }

func (o *joinFlags) define(f *cli.Flags) {
	f.Group("Labels that come later", func() {
		f.StringVar(&o.by, "join", "none", "what an example and its label, which comes later, have in common: a `FIELD`, such as order_id or order.id; header:NAME; or key, the record key, or id if there is no key; order_id=id if the labels have another one; order_id=1 for a CSV column")
		f.Suggest("join", []string{"none", "key"})
		f.StringVar(&o.topic, "labels-topic", "", "`TOPIC` of labels that come later: JSON, Avro, Protobuf or CSV, or labels alone; by default, later records of --topics have them")
		f.StringVar(&o.field, "labels-field", "", "`FIELD` or CSV column of the label in --labels-topic; by default as --label says, or the last column")
		f.IntVar(&o.window, "join-window", 10000, "examples wait for their label until that of one more than `N` later has come")
		f.StringVar(&o.missing, "missing-label", "", "`LABEL` of examples whose own has not come by then, such as false where only clicks are reported; by default they have none")
	})
}

func (o *joinFlags) config(c *cli.Call) (trainer.Join, error) {
	switch {
	case !o.used() && o.topic != "":
		return trainer.Join{}, c.Bad("labels-topic", errors.New("it needs --join and what an example and its label have in common: a field such as order_id, or key"))
	case !o.used() && o.field != "":
		return trainer.Join{}, c.Bad("labels-field", errors.New("it needs --join and --labels-topic"))
	case !o.used() && o.missing != "":
		return trainer.Join{}, c.Bad("missing-label", errors.New("it needs --join"))
	case !o.used():
		return trainer.Join{}, nil
	case o.topic == "" && o.field != "":
		return trainer.Join{}, c.Bad("labels-field", errors.New("without --labels-topic, --label names the label"))
	case o.topic == "" && strings.Contains(o.by, "="):
		return trainer.Join{}, c.Bad("join", errors.New("without --labels-topic, examples and labels have the key in the same field"))
	case o.window < 1 || o.window > trainer.MaxJoinWindow:
		return trainer.Join{}, c.Bad("join-window", fmt.Errorf("%d, want 1 to %d", o.window, trainer.MaxJoinWindow))
	}
	j := trainer.Join{Topic: o.topic, Window: o.window, By: o.by, Field: o.field, Missing: o.missing}
	if err := engine.Join(j).Validate(); err != nil {
		return trainer.Join{}, c.Bad("join", err)
	}
	return j, nil
}

// printJoin prints how many labels from a separate topic were used, and how many not.
func printJoin(w io.Writer, s *engine.JoinStats) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "labels: %d before and %d after their example, %d too late, %d for no example, %d for one that had a label; %d examples without\n",
		s.Early, s.Joined.Sum(), s.Late.Sum(), s.Orphans, s.Duplicates, s.Missing)
}

// lostLabels says how many labels have met no example, and what to do about it; "" if
// they are few.
func lostLabels(s *engine.JoinStats) string {
	if s == nil {
		return ""
	}
	late, met := s.Late.Sum(), s.Early+s.Joined.Sum()
	all := met + late + s.Orphans
	const ask = `"streamsvm doctor" with the flags of this command says why`
	switch {
	case met == 0 && all+s.Labels > 0 && s.Missing+s.Examples > 0:
		return fmt.Sprintf("None of %d labels has met one of %d examples: %s.", all+s.Labels, s.Missing+s.Examples, ask)
	case 1000*late > all:
		window := uint64(trainer.MaxJoinWindow)
		for i := len(engine.DelayBounds) - 1; i >= 0 && s.Late[i+1] == 0; i-- {
			window = engine.DelayBounds[i] // all were at most so late
		}
		return fmt.Sprintf("%d of %d labels came too late and were not used: begin again with --join-window %d and another --checkpoint.", late, all, window)
	case 1000*s.Orphans > all:
		return fmt.Sprintf("%d of %d labels have met no example and were not used: %s.", s.Orphans, all, ask)
	}
	return ""
}

// lossHook logs when labels are lost, and again whenever their number has doubled.
type lossHook struct {
	log  *slog.Logger
	next uint64
}

// Consumed implements engine.ConsumedHook.
func (l *lossHook) Consumed(e *engine.Engine, _ int64) {
	s := e.Join()
	if s == nil || s.Late.Sum()+s.Orphans < l.next {
		return
	}
	if text := lostLabels(s); text != "" && e.Counts().Consumed >= 1000 {
		l.log.Warn(text)
		l.next = 2 * (s.Late.Sum() + s.Orphans + 1)
	}
}
