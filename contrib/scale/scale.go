// Package scale adds the commands sift, sum, merge and solve, for streams that one
// trainer cannot keep up with. sift forwards only the records that a trainer still
// learns from. sum accumulates the normal equations of a least-squares SVM over some of
// the records, merge adds up such sketches, and solve makes the model from them. Import
// it for its side effect.
package scale

import (
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm" // registers the learner of sum
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
)

func init() {
	contrib.Commands = func(w contrib.Wiring) []*cli.Command {
		return []*cli.Command{siftCommand(w), sumCommand(w), mergeCommand(), solveCommand()}
	}
}
