package algos

import (
	"context"

	"github.com/streamsvm/streamsvm/stream"
)

// Feed adds the examples to l in order and does every step that becomes due.
// Examples that l refuses are skipped and counted. An error comes from a step or
// from ctx.
func Feed(ctx context.Context, l Learner, examples ...*stream.Example) (refused int, err error) {
	for _, x := range examples {
		if _, err := l.Add(x); err != nil {
			refused++
			continue
		}
		if err := StepDue(ctx, l, nil); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// StepDue does every step that is due and calls done, which may be nil, after each.
// An error comes from a step.
func StepDue(ctx context.Context, l Learner, done func()) error {
	for n := l.Need(); n.Fresh <= 0; n = l.Need() {
		for range max(n.Steps, 1) {
			if _, err := l.Step(ctx); err != nil {
				return err
			}
			if done != nil {
				done()
			}
		}
	}
	return nil
}
