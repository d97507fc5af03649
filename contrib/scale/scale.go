// Package scale adds the commands sift and sum, for streams that are too fast for one
// trainer. sift forwards only the records that a trainer still learns from. sum
// accumulates the normal equations of a least-squares SVM over some of the records, adds
// up such sketches, and makes the model from them. Import it for its side effect.
package scale

import (
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm" // registers the learner of sum
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
)

func init() {
	contrib.Add(contrib.ScaleOut, func(w contrib.Wiring) []*cli.Command {
		return []*cli.Command{siftCommand(w), sumCommand(w)}
	})
}
