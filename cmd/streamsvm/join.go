package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// joinFlags say where labels come from that do not come with the examples.
type joinFlags struct {
	by, topic string
	window    int
}

func (o *joinFlags) define(f *cli.Flags) {
	f.Group("Labels that come later", func() {
		f.Choice(&o.by, "join", "none", []string{"none", "key"}, "join examples with the labels in another topic")
		f.Lookup("join").Usage = "key joins examples with the labels of another topic, by the keys of the records, or by id where they have none; none does not"
		f.StringVar(&o.topic, "labels-topic", "", "`TOPIC` of the labels: objects like {\"id\":\"a7\",\"y\":1}, or numbers")
		f.IntVar(&o.window, "join-window", 10000, "an example waits for its label until `N` more examples have come, a label for its example until N more labels have")
	})
}

func (o *joinFlags) config(c *cli.Call) (trainer.Join, error) {
	switch {
	case o.by != "key" && o.topic != "":
		return trainer.Join{}, c.Bad("labels-topic", errors.New("it is of no use without --join key"))
	case o.by != "key":
		return trainer.Join{}, nil
	case o.topic == "":
		return trainer.Join{}, c.Bad("labels-topic", errors.New("--join key needs it"))
	case o.window < 1 || o.window > trainer.MaxJoinWindow:
		return trainer.Join{}, c.Bad("join-window", fmt.Errorf("%d, want 1 to %d", o.window, trainer.MaxJoinWindow))
	}
	return trainer.Join{Topic: o.topic, Window: o.window}, nil
}

// decoder returns the decoder for labels, nil if none are joined.
func (o *joinFlags) decoder(c *cli.Call, co *codecFlags, task algos.Task) (stream.Decoder, error) {
	if o.by != "key" {
		return nil, nil
	}
	dec, err := codec.NewLabels(codec.Options{Labels: co.labels, Task: string(task)})
	if err != nil {
		return nil, c.Bad("labels", err)
	}
	return dec, nil
}

// addTo makes a source read the labels, too: all partitions of their topic.
func (o *joinFlags) addTo(c *cli.Call, so *kafkaio.SourceOptions) error {
	if o.by != "key" {
		return nil
	}
	if slices.Contains(so.Topics, o.topic) {
		return c.Bad("labels-topic", fmt.Errorf("%s is a topic of examples too", o.topic))
	}
	so.Topics = append(slices.Clone(so.Topics), o.topic)
	return nil
}

// reads lists the topics that train reads.
func (t *train) reads() []string {
	if t.learnFlags.join.by != "key" || t.learnFlags.join.topic == "" {
		return t.topics
	}
	return append(slices.Clone(t.topics), t.learnFlags.join.topic)
}

// printJoin says what became of labels that came on a topic of their own.
func printJoin(w io.Writer, s *engine.JoinStats) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "labels: %d before and %d after their example, %d too late, %d for no example, %d for one that had a label; %d examples without\n",
		s.Early, s.Joined.Sum(), s.Late.Sum(), s.Orphans, s.Duplicates, s.Missing)
}
