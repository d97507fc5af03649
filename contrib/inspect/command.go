package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/topiclog"
)

func init() { contrib.Inspect = run }

// run describes the files, directories and state topics in c.Args, and the model topic. It
// fails with code 65 if anything is damaged.
func run(ctx context.Context, c *cli.Call, in contrib.Inspected) error {
	found := []Description{} // prints as an array, even without any
	var errs []error
	for _, path := range c.Args {
		ds, err := describePath(ctx, path, in)
		found = append(found, ds...)
		errs = append(errs, err)
	}
	if in.Topic != nil {
		t, err := in.Topic()
		if err == nil {
			var d *Description
			d, err = describeTopic(t)
			found = append(found, *d)
		}
		errs = append(errs, err)
	} else if len(c.Args) == 0 {
		return cli.Failf(cli.Usage, "model inspect wants a FILE, a DIR or --model-topic")
	}
	if in.JSON {
		e := json.NewEncoder(c.Out)
		e.SetIndent("", "  ")
		if err := e.Encode(found); err != nil {
			return err
		}
		return errors.Join(errs...)
	}
	errs = append(errs, printAll(c.Out, found))
	return errors.Join(errs...)
}

// describePath describes a file, a directory or a state topic.
func describePath(ctx context.Context, path string, in contrib.Inspected) ([]Description, error) {
	topic, ok := topiclog.StateTopic(path)
	if !ok {
		return File(ctx, path, 10)
	}
	cfg, err := in.Kafka()
	if err != nil {
		return nil, err
	}
	states, err := statetopic.Read(ctx, statetopic.ReadOptions{Config: cfg, Topic: topic, Name: in.Name, MaxDown: patience})
	if err != nil {
		return nil, in.Exit(err)
	}
	return describeStates(topic, states)
}

// patience is how long a broker may take to answer.
const patience = 30 * time.Second
