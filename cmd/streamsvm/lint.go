package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// check returns everything that is wrong with what is to be read.
func (o *sourceFlags) check(c *cli.Call) []error {
	_, err := o.options(c, kafkaio.Config{Brokers: []string{"check:9092"}}, nil)
	var own *cli.Error
	if err != nil && !errors.As(err, &own) {
		err = cli.Fail(cli.Usage, err)
	}
	return []error{err}
}

// check returns everything that is wrong with the format of the records.
func (o *codecFlags) check(c *cli.Call) []error {
	_, err := o.open(c, algos.Classify)
	return []error{err}
}

// check returns what is wrong between the settings of train.
func (t *train) check(c *cli.Call) []error {
	var errs []error
	if t.modelTopic != "" && t.checkpoint == "" {
		errs = append(errs, c.Bad("checkpoint", errors.New("model-topic needs it: the versions of a model go on from the checkpoints after a restart")))
	}
	if t.retain < 1 {
		errs = append(errs, c.Bad("checkpoint-retain", fmt.Errorf("%d is less than 1", t.retain)))
	}
	if t.queue < 1 {
		errs = append(errs, c.Bad("queue", fmt.Errorf("%d is less than 1", t.queue)))
	}
	if t.interval < 0 {
		errs = append(errs, c.Bad("checkpoint-interval", fmt.Errorf("%v is negative", t.interval)))
	}
	if t.shutdown <= 0 {
		errs = append(errs, c.Bad("shutdown-timeout", fmt.Errorf("%v is not a time to do anything in", t.shutdown)))
	}
	if t.listen != "" {
		if _, _, err := net.SplitHostPort(t.listen); err != nil {
			errs = append(errs, c.Bad("listen", fmt.Errorf("%q is not HOST:PORT%s", t.listen, bare(t.listen))))
		}
	}
	for _, topic := range t.reads() {
		if topic == t.modelTopic {
			what := "examples"
			if !slices.Contains(t.topics, topic) {
				what = "labels"
			}
			errs = append(errs, c.Bad("model-topic", fmt.Errorf("%s is a topic of %s too", topic, what)))
		}
	}
	if j := t.learnFlags.join; j.by == "key" && slices.Contains(t.topics, j.topic) {
		errs = append(errs, c.Bad("labels-topic", fmt.Errorf("%s is a topic of examples too", j.topic)))
	}
	return errs
}

// bare suggests an address where only a port is given.
func bare(port string) string {
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", "127.0.0.1:"+port)
}
