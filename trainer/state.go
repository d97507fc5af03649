package trainer

import (
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// State is a view of the state of learning. A hook may use it during its call, other
// code after Run or Fit has returned. The zero State is empty.
type State struct{ e *engine.Engine }

// Counts are the numbers of consumed records, by outcome. Consumed is the sum of Learned,
// SampledOut, Dead, Tombstones, Joined, Late and Pending.
type Counts struct {
	Consumed             uint64
	Labelled, Unlabelled uint64 // examples, after a join
	Learned, SampledOut  uint64
	Dead                 uint64 // records that could not be used
	Tombstones           uint64 // records without a value that were skipped, see Job.Tombstones
	Joined, Late         uint64 // labels of Join.Topic that were used, and that were not
	Pending              uint64 // waiting for the end of the warm-up, for their label or to be learned from, or labels waiting for their example
}

// Counts returns the numbers of records so far, by outcome.
func (s State) Counts() (n Counts) {
	if s.e != nil {
		n = Counts(s.e.Counts())
	}
	return n
}

// Report returns the learner's report, an empty one before the warm-up ends.
func (s State) Report() algos.Report {
	if s.e == nil {
		return algos.NewReport()
	}
	return s.e.Report()
}

// Options returns the learner's complete options, including tuned ones.
func (s State) Options() map[string]string {
	if s.e == nil {
		return nil
	}
	return s.e.Options()
}

// Measures returns the prequential measures, over all examples and over the last
// Options.Window, and figures from the learner, in a fixed order. Prequential means
// that each example was predicted before it was learned from.
func (s State) Measures() []stream.Measure {
	if s.e == nil {
		return nil
	}
	return s.e.Evaluation()
}

// Hash returns the xxh64 of the complete state: equal streams give equal hashes.
func (s State) Hash() (uint64, error) {
	if s.e == nil {
		return 0, nil
	}
	return s.e.Hash()
}

// OneLabel returns an error if there are examples but no model, because all labels so
// far are equal. Otherwise it returns nil.
func (s State) OneLabel() *stream.OneLabelError {
	if s.e == nil {
		return nil
	}
	return s.e.OneLabel()
}

// Predictor returns a copy of the current model with its preprocessing; nil before
// the warm-up ends, and while all labels are equal, since such a model would only
// repeat the label.
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

// A Hook is notified of events in a run. It is any value that implements one or
// more of the interfaces below. Their methods must not block.
type Hook any

// HookProgress is called with the state before the first record and after each
// batch of records, on the learning goroutine; queued is the number of records
// waiting.
type HookProgress interface {
	Progress(s State, queued int64)
}

// HookDiscovery is called before HookProgress, about once a second and with each fetch,
// while the first records are read to find out their format; records is their number so
// far. It is called on the goroutine of Run.
type HookDiscovery interface {
	Discovering(src stream.Source, records int)
}

// HookResumed is called once the checkpoint that a run continues from has been loaded, on
// the goroutine of Run.
type HookResumed interface {
	Resumed(h checkpoint.Header)
}

// HookDead is called for each record that cannot be used, on the learning goroutine.
type HookDead interface {
	Dead(why *stream.RecordError)
}

// HookCheckpointed is called when a checkpoint is durable, on its own goroutine.
type HookCheckpointed interface {
	Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration)
}

// HookFailed is called with the reason why a run cannot continue, before its last
// checkpoint, on any goroutine and possibly more than once.
type HookFailed interface {
	Failed(err error)
}

// HookPublished is called when an update is durable, on its own goroutine, with the
// update as published, full or delta.
type HookPublished interface {
	Published(u *stream.Update, took time.Duration)
}

// HookPromoted is called when an alias points to a version of the model, on its own
// goroutine.
type HookPromoted interface {
	Promoted(alias string, u *stream.Update, why stream.Promotion)
}

// progress reports the state of an engine to a hook.
type progress struct{ HookProgress }

// Started implements engine.StartedHook.
func (p progress) Started(e *engine.Engine, _ stream.Source) { p.Progress(State{e}, 0) }

// Consumed implements engine.ConsumedHook.
func (p progress) Consumed(e *engine.Engine, queued int64) { p.Progress(State{e}, queued) }
