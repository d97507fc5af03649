package trainer

import (
	"context"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
)

// Fit learns from the examples in order, as Run does from a stream that ends after
// them. It ignores Seq and ID. The features must not be changed while the state is
// in use. An example that cannot be used is an error, a *stream.RecordError whose
// Offset is its index. Examples whose labels are all equal are an error too, a
// *stream.OneLabelError.
func Fit(ctx context.Context, examples []stream.Example, o Options) (State, error) {
	e, err := o.engine(nil)
	if err != nil {
		return State{}, err
	}
	items := make([]engine.Item, 1)
	for i := range examples {
		items[0] = engine.Item{Offset: int64(i), Example: examples[i]}
		if _, err := e.Consume(ctx, items); err != nil {
			return State{}, err
		}
		if why := items[0].Err; why != nil {
			return State{}, why
		}
	}
	return State{e}, e.Finish(ctx)
}
