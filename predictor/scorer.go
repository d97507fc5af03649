package predictor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// ScorerOptions configure a Scorer. Open needs File or Models. The zero value of all
// other fields is right for records like the ones that the model was trained on.
type ScorerOptions struct {
	// File is the path of a model that Predictor.Save or a command has written.
	File string
	// Models delivers the versions of a model as they are published, such as a
	// *modeltopic.Subscriber. The Scorer owns it from then on.
	Models stream.Subscriber
	// Follow configures the following of Models.
	Follow FollowOptions

	// Adapt, if not nil, is called once per version of the model with a copy of its
	// signature, and adapts it to the records to score if they differ: the codec, the
	// layout of csv, or the labels if the signature has none. Errors are returned
	// unchanged.
	Adapt func(*codec.Signature) error
	// Columns names the columns of csv records if they differ from the training
	// data. Features are then matched by name, and other columns are ignored.
	Columns []string
	// Strict turns off the reading of JSON objects if the codec is libsvm or csv.
	Strict bool
	// Schemas and Written are for avro and protobuf, as in codec.Options.
	Schemas codec.Schemas
	Written *codec.WrittenSchema

	// Threshold, in (0,1], predicts the positive one of two labels if its probability
	// is at least Threshold; 0 predicts it if the score is not negative.
	Threshold float64
}

// Scorer scores raw records: bytes in, label, probability and score out. It reads
// every form of record that training reads; the signature of the model says which
// one to expect. It always uses the newest version of its model, and is safe for
// concurrent use.
type Scorer struct {
	o       ScorerOptions
	current func() *Version
	live    *Live // nil unless it follows
	close   func() error

	mu   sync.Mutex
	last atomic.Pointer[Scorer] // pinned to the newest version

	// version and records are set if the Scorer is pinned to a version.
	version *Version
	records *records

	batches sync.Pool // of *Batch
}

// ErrNoModel is returned before the first version of the model has arrived.
var ErrNoModel = errors.New("there is no model yet")

// ErrNoProbability is the error of predictions with a Threshold if the model has no
// probabilities.
var ErrNoProbability = errors.New("the model has no probabilities, which a threshold needs: fewer than 200 predictions had been compared with their labels, or an older version made it")

// Open returns a Scorer for the model in a file, or one that follows Models until
// Close is called or ctx ends. In the latter case it waits for the first version.
func Open(ctx context.Context, o ScorerOptions) (*Scorer, error) {
	switch err := o.check(); {
	case err != nil:
		return nil, err
	case (o.File == "") == (o.Models == nil):
		return nil, errors.New("predictor: want a File or Models, one of them")
	case o.File != "":
		p, err := Load(o.File)
		if err != nil {
			return nil, err
		}
		v := &Version{Predictor: p.Compile()}
		return NewScorer(func() *Version { return v }, o)
	}
	ctx, cancel := context.WithCancel(ctx)
	live := Follow(ctx, o.Models, o.Follow)
	end := sync.OnceValue(func() error {
		cancel()
		<-live.Done()
		return o.Models.Close()
	})
	_, err := live.Wait(ctx)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	s, err := NewScorer(live.Current, o)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	s.live, s.close = live, end
	return s, nil
}

// NewScorer returns a Scorer for the versions that current returns, such as the
// method Current of a Live; if it returns nil, there is none yet. NewScorer ignores
// File, Models and Follow. It fails if records cannot be read for the current version.
func NewScorer(current func() *Version, o ScorerOptions) (*Scorer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := newScorer(current, o)
	if current() == nil {
		return s, nil
	}
	_, err := s.Pin()
	return s, err
}

// check is made before anything is opened.
func (o *ScorerOptions) check() error {
	if !(o.Threshold >= 0 && o.Threshold <= 1) {
		return fmt.Errorf("predictor: Threshold is %v, want it in (0,1], or 0 for none", o.Threshold)
	}
	return nil
}

func newScorer(current func() *Version, o ScorerOptions) *Scorer {
	s := &Scorer{o: o, current: current}
	s.batches.New = func() any { return new(Batch) }
	return s
}

// Close stops following and closes Models. The Scorer keeps working with its last
// version.
func (s *Scorer) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// Err returns why following has stopped: nil while it goes on, and for a model from a
// file.
func (s *Scorer) Err() error {
	if s.live == nil {
		return nil
	}
	select {
	case <-s.live.Done():
		return s.live.Err()
	default:
		return nil
	}
}

// Current returns the newest version of the model, nil before the first.
func (s *Scorer) Current() *Version { return s.current() }

// Pin returns a Scorer that keeps using the current version.
func (s *Scorer) Pin() (*Scorer, error) {
	if s.version != nil {
		return s, nil
	}
	v := s.current()
	if v == nil {
		return nil, ErrNoModel
	}
	if last := s.last.Load(); last != nil && last.version.Predictor == v.Predictor {
		return last, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var before *records
	if last := s.last.Load(); last != nil {
		if last.version.Predictor == v.Predictor {
			return last, nil
		}
		before = last.records
	}
	r, err := newRecords(v.Predictor, &s.o, before)
	if err != nil {
		return nil, err
	}
	pinned := newScorer(func() *Version { return v }, s.o)
	pinned.version, pinned.records = v, r
	s.last.Store(pinned)
	return pinned, nil
}

// WithColumns returns a Scorer for csv records with other columns, and the same
// models; see ScorerOptions.Columns.
func (s *Scorer) WithColumns(names []string) *Scorer {
	o := s.o
	o.Columns = names
	return newScorer(s.current, o)
}

// Codec returns the codec that reads the records, nil before there is a model. For
// events, codec.FieldCounts returns its statistics.
func (s *Scorer) Codec() codec.Codec {
	p := s.last.Load()
	if s.version != nil {
		p = s
	}
	if p == nil {
		return nil
	}
	return p.records.dec
}

// TakesJSON reports whether JSON objects are read although the codec is not json;
// see ScorerOptions.Strict.
func (s *Scorer) TakesJSON() bool {
	s, err := s.Pin()
	return err == nil && s.records.either
}

// Labels returns the names of the classes, by number. Of two classes the positive one
// is the second. It is nil for a regression and before there is a model.
func (s *Scorer) Labels() []string {
	s, err := s.Pin()
	if err != nil {
		return nil
	}
	return s.records.texts
}

// LabelValues returns the values of Prediction.Label, in the order of Labels: all string,
// all bool, or all float64. It is nil for a regression and before there is a model.
func (s *Scorer) LabelValues() []any {
	s, err := s.Pin()
	if err != nil {
		return nil
	}
	return slices.Clone(s.records.labels)
}

// Inputs describes the fields or features that the model expects.
func (s *Scorer) Inputs() (codec.Inputs, error) {
	s, err := s.Pin()
	if err != nil {
		return codec.Inputs{}, err
	}
	return s.records.inputs()
}

// Score scores one record. The error is Prediction.Err.
func (s *Scorer) Score(record []byte) (Prediction, error) { return s.one(record, Batch{}) }

// ScoreMap scores a record given as a map, whatever the codec: the fields of an event,
// features by name, or "x" with a vector. Values are encoded as by encoding/json; the
// error about one that cannot be is a *stream.FieldError.
func (s *Scorer) ScoreMap(fields map[string]any) (Prediction, error) {
	s, err := s.Pin()
	if err != nil {
		return Prediction{Err: err}, err
	}
	record, err := s.records.row(fields)
	if err != nil {
		return Prediction{Err: err}, err
	}
	return s.one(record, Batch{JSON: true})
}

// one scores a record with the options JSON and Contributions of o.
func (s *Scorer) one(record []byte, o Batch) (Prediction, error) {
	b := s.batches.Get().(*Batch)
	defer s.batches.Put(b)
	b.Records = append(b.Records[:0], stream.Record{Value: record})
	b.JSON, b.Contributions = o.JSON, o.Contributions
	err := s.ScoreBatch(context.Background(), b)
	b.Records[0] = stream.Record{}
	if err != nil {
		return Prediction{Err: err}, err
	}
	p := b.Predictions[0]
	b.Predictions[0] = Prediction{}
	p.Scores = slices.Clone(p.Scores)
	return p, p.Err
}

// Decode reads a record into an example for the model, without scoring it; see
// stream.RecordDecoder for a and ctx.
func (s *Scorer) Decode(ctx context.Context, a *stream.Arena, r *stream.Record, ex *stream.Example) error {
	s, err := s.Pin()
	if err != nil {
		return err
	}
	return s.records.decode(ctx, a, r, false, ex)
}

// A FieldCheck says what to do about unknown and missing fields of records.
type FieldCheck uint8

const (
	IgnoreFields FieldCheck = iota // nothing
	ReportFields                   // set Prediction.Unknown and Missing
	RefuseFields                   // set Prediction.Err, too
)

// Batch holds records to score together and their predictions. Its memory is reused
// from call to call. The zero value is ready to use; one goroutine may use it at a
// time.
type Batch struct {
	Records []stream.Record
	// JSON says that the records are JSON objects, whatever the codec of the model.
	JSON bool
	// Fields says what to do if a record has fields that the model does not know, or
	// lacks fields of the model. It applies to JSON, and to csv with ScorerOptions.Columns.
	Fields FieldCheck
	// Contributions is the most contributions that each prediction lists; see
	// [Scorer.Explain]. Each field of a record takes another prediction.
	Contributions int
	// Predictions has one element per record, all by the same version of the model.
	// They are valid until the batch is scored again.
	Predictions []Prediction

	hand   int // index of the record being decoded, plus 1; 0 for none
	arena  stream.Arena
	ex     stream.Example
	xs     []stream.Vec
	at     []int // index of the record of each vector in xs
	f      []float64
	scores []float64 // of more than two classes
}

// Decoding returns the index of the record being decoded, or -1, for crash reports.
func (b *Batch) Decoding() int { return min(b.hand, len(b.Records)) - 1 }

// Large reports whether the batch holds more than 1 MiB of features or 2 MiB of
// scores, which is too much to keep for small batches.
func (b *Batch) Large() bool {
	values := 0
	for i := range b.xs {
		values += len(b.xs[i].Val)
	}
	return values > 1<<18 || cap(b.scores) > 1<<18
}

// Clear drops references to records and models, so that they can be freed while the
// batch is kept.
func (b *Batch) Clear() {
	clear(b.Records[:cap(b.Records)])
	clear(b.Predictions[:cap(b.Predictions)])
}

// ScoreBatch scores the records of b, on several processors if there are many. It
// returns an error only if there is no usable model; Prediction.Err has the errors
// of records. With a schema registry it may wait for schemas until ctx ends.
func (s *Scorer) ScoreBatch(ctx context.Context, b *Batch) error {
	s, err := s.Pin()
	if err != nil {
		return err
	}
	v, r := s.version, s.records
	b.arena.Reset()
	n := len(b.Records)
	b.Predictions, b.xs, b.at = slices.Grow(b.Predictions[:0], n)[:n], b.xs[:0], b.at[:0]
	for i := range b.Records {
		b.hand = i + 1
		p, ex := &b.Predictions[i], &b.ex
		*p, *ex = Prediction{Model: v.Update.Model, Version: v.Update.Version, of: r}, stream.Example{}
		if err := r.decode(ctx, &b.arena, &b.Records[i], b.JSON, ex); err != nil {
			p.ID, p.Err = ex.ID, err
			continue
		}
		if b.Fields != IgnoreFields {
			p.Unknown, p.Missing = r.compare(b.Records[i].Value, b.JSON)
			if b.Fields == RefuseFields {
				p.Err = fieldsError(p.Unknown, p.Missing)
			}
		}
		if p.ID, p.Y, p.Class, p.Labelled = ex.ID, ex.Y, ex.Class, ex.Labelled; p.Err != nil {
			continue
		}
		b.xs, b.at = append(b.xs, ex.X), append(b.at, i)
	}
	b.hand = 0
	if v.Classes() > 2 {
		s.classes(b)
	} else {
		s.decide(b)
	}
	for k, i := range b.at {
		if p := &b.Predictions[i]; b.Contributions > 0 && p.Err == nil {
			s.explain(ctx, p, b.xs[k], b.Contributions)
		}
	}
	return nil
}

// classes scores the vectors of b for more than two classes.
func (s *Scorer) classes(b *Batch) {
	n := s.version.Classes()
	b.scores = slices.Grow(b.scores[:0], n*len(b.xs))[:n*len(b.xs)]
	s.version.Scores(b.scores, b.xs)
	for k, i := range b.at {
		p, scores := &b.Predictions[i], b.scores[k*n:(k+1)*n]
		best := s.version.pipe.Best(scores)
		p.Scores, p.Score, p.Probability = scores, scores[best], unknown
		p.Value, p.Label = float64(best), s.records.labels[best]
		if all := slices.Clone(scores); s.version.Probabilities(all, scores) {
			p.Probabilities = all
		}
	}
}

// decide scores the vectors of b for two classes or a regression.
func (s *Scorer) decide(b *Batch) {
	b.f = slices.Grow(b.f[:0], len(b.xs))[:len(b.xs)]
	s.version.Decisions(b.f, b.xs)
	for k, i := range b.at {
		p := &b.Predictions[i]
		p.Score, p.Value = b.f[k], s.version.Label(b.f[k])
		known := false
		if p.Probability, known = s.version.Probability(p.Score); s.o.Threshold > 0 && !known {
			p.Err = ErrNoProbability
			continue
		} else if s.o.Threshold > 0 {
			p.Value = math.Copysign(1, p.Probability-s.o.Threshold)
		}
		if s.records.labels == nil {
			p.Label = p.Value
		} else {
			p.Label = s.records.labels[s.records.index(p.Value)]
		}
	}
}
