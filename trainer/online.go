package trainer

import (
	"context"
	"errors"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Online learns from examples as the caller hands them over. It learns the same as Run
// does from a stream of these examples. One goroutine may use it at a time.
type Online struct {
	State
	// From is the partition that the examples come from. The state depends on it, as in Run.
	From stream.Partition

	next int64
}

var errNotStarted = errors.New("trainer: an Online comes from Start or Resume")

// Start returns an Online that has not seen any example. dec is the decoder of the
// examples, which describes the data; it may be nil. The error is an *OptionError.
func Start(o Options, dec stream.Decoder) (*Online, error) {
	e, err := o.engine(codec.SignatureOf(dec))
	if err != nil {
		return nil, err
	}
	return &Online{State: State{e}}, nil
}

// Resume returns an Online that continues from a snapshot of one with the same options
// and data. The error is an *OptionError or a *StateError.
func Resume(o Options, dec stream.Decoder, snap *checkpoint.Snapshot) (*Online, error) {
	l, err := Start(o, dec)
	if err != nil {
		return nil, err
	}
	if snap == nil {
		return nil, &StateError{errors.New("there is no snapshot")}
	}
	l.next = int64(snap.Header.Examples)
	if err := restore(l.e, snap); err != nil {
		return nil, err
	}
	return l, nil
}

// Learn learns from examples in order and returns how many it has consumed. It ignores
// Seq and ID. The features must not be changed afterwards. An example that cannot be used
// is an error, a *stream.RecordError whose Offset counts all examples so far; Learn may
// then be called with the examples after it. Other errors are final, except ctx.Err().
func (l *Online) Learn(ctx context.Context, examples []stream.Example) (int, error) {
	if l.e == nil {
		return 0, errNotStarted
	}
	items := make([]engine.Item, 1)
	for i := range examples {
		items[0] = engine.Item{Partition: l.From, Offset: l.next, Example: examples[i]}
		if _, err := l.e.Consume(ctx, items); err != nil {
			return i, err
		}
		l.next++
		if why := items[0].Err; why != nil {
			return i, why
		}
	}
	return len(examples), nil
}

// Finish completes the optimisation, as at the end of a stream. Learn may still be
// called afterwards. Examples whose labels are all equal are an error, a
// *stream.OneLabelError, and leave the state unchanged.
func (l *Online) Finish(ctx context.Context) error {
	if l.e == nil {
		return errNotStarted
	}
	return l.e.Finish(ctx)
}

// Snapshot returns a copy of the state.
func (l *Online) Snapshot(ctx context.Context) (*checkpoint.Snapshot, error) {
	if l.e == nil {
		return nil, errNotStarted
	}
	return l.e.Snapshot(ctx)
}
