package trainer

import (
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// State is what has been learned so far, to be looked at: by a hook during its
// call, by others when Run or Fit has returned. The zero State, of what has not
// begun, is empty.
type State struct{ e *engine.Engine }

// Counts says what became of the records consumed. Consumed is the sum of
// Learned, SampledOut, Dead, Tombstones, Joined, Late and Pending.
type Counts struct {
	Consumed             uint64
	Labelled, Unlabelled uint64 // of the examples, after a join
	Learned, SampledOut  uint64
	Dead                 uint64 // records that could not be used
	Tombstones           uint64 // records without a value that were skipped, see Job.Tombstones
	Joined, Late         uint64 // labels of Join.Topic that have met their example, and that have not
	Pending              uint64 // waiting for the end of the warm-up, or to be joined
}

// Counts says what became of the records so far.
func (s State) Counts() (n Counts) {
	if s.e != nil {
		n = Counts(s.e.Counts())
	}
	return n
}

// Report returns the learner's report; before the warm-up ends, an empty one.
func (s State) Report() algos.Report {
	if s.e == nil {
		return algos.NewReport()
	}
	return s.e.Report()
}

// Options returns the learner's complete options, tuned ones included.
func (s State) Options() map[string]string {
	if s.e == nil {
		return nil
	}
	return s.e.Options()
}

// Measures lists the prequential measures, over all examples and over the last
// Options.Window, and numbers of the learner, in a fixed order. Prequential
// means that the model was asked about each example before it learned from it.
func (s State) Measures() []stream.Measure {
	if s.e == nil {
		return nil
	}
	return s.e.Evaluation()
}

// Hash returns the xxh64 of the complete state: equal streams give equal
// hashes.
func (s State) Hash() (uint64, error) {
	if s.e == nil {
		return 0, nil
	}
	return s.e.Hash()
}

// OneLabel says why there is no model although examples have come: no two of
// their labels differ. Otherwise it returns nil.
func (s State) OneLabel() *stream.OneLabelError {
	if s.e == nil {
		return nil
	}
	return s.e.OneLabel()
}

// Predictor returns a copy of the present model, with its preprocessing; nil
// before the warm-up ends, and while no two labels differ: such a model would
// only repeat the one label.
func (s State) Predictor() (*predictor.Predictor, error) {
	if s.e == nil || s.e.Predictor() == nil {
		return nil, nil
	}
	data, err := s.e.Predictor().Pack().AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	return predictor.Decode(data)
}

// A Hook is told what happens in a run. It is any value that implements one or
// more of the interfaces below, whose methods must not block.
type Hook any

// HookProgress is told the state before the first record and after each batch
// of records, on the learning goroutine; queued is the number of records that
// wait.
type HookProgress interface {
	Progress(s State, queued int64)
}

// HookDead is told of each record that cannot be used, on the learning
// goroutine.
type HookDead interface {
	Dead(why *stream.RecordError)
}

// HookCheckpointed is told of each checkpoint when it is durable, on a
// goroutine of its own.
type HookCheckpointed interface {
	Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration)
}

// HookFailed is told why a run cannot go on, before its last checkpoint, on the
// learning goroutine.
type HookFailed interface {
	Failed(err error)
}

// HookPublished is told of each update when it is durable, on a goroutine of
// its own. It gets the update as it was published, full or delta.
type HookPublished interface {
	Published(u *stream.Update, took time.Duration)
}

// HookPromoted is told when an alias stands for a version of the model, on a
// goroutine of its own.
type HookPromoted interface {
	Promoted(alias string, u *stream.Update, why stream.Promotion)
}

// progress shows a hook the state of an engine.
type progress struct{ HookProgress }

// Started implements engine.StartedHook.
func (p progress) Started(e *engine.Engine, _ stream.Source) { p.Progress(State{e}, 0) }

// Consumed implements engine.ConsumedHook.
func (p progress) Consumed(e *engine.Engine, queued int64) { p.Progress(State{e}, queued) }
