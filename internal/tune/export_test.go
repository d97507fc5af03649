package tune

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// Accuracy returns the share of test that a learner gets right which has learned
// from train. It is for tests of learners that import this package.
func Accuracy(ctx context.Context, spec algos.Spec, env algos.Env, options map[string]string, train, test []*stream.Example) (float64, error) {
	s, err := run(ctx, spec, env, options, fold{train, test})
	return float64(s.right) / float64(s.n), err
}
