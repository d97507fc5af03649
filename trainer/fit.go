package trainer

import (
	"context"

	"github.com/streamsvm/streamsvm/stream"
)

// Fit learns from the examples in order, as Run does from a stream that ends after
// them. It ignores Seq and ID. The features must not be changed while the state is
// in use. An example that cannot be used is an error, a *stream.RecordError whose
// Offset is its index. Examples whose labels are all equal are an error too, a
// *stream.OneLabelError.
func Fit(ctx context.Context, examples []stream.Example, o Options) (State, error) {
	l, err := Start(o, nil)
	if err != nil {
		return State{}, err
	}
	if _, err := l.Learn(ctx, examples); err != nil {
		return State{}, err
	}
	return l.State, l.Finish(ctx)
}
