package predictor

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// ScorerOptions say where a Scorer has its model from, and how records differ from
// those that the model was trained on. Only the first is needed.
type ScorerOptions struct {
	// File is the path of a model, for Open. Models, instead of it, has the versions
	// of a model as they are published: a modeltopic.Subscriber, which the Scorer
	// then owns.
	File   string
	Models stream.Subscriber
	// Follow is for Models.
	Follow FollowOptions

	// Adapt, if not nil, is called once for each version of the model with what it
	// says about its data, and changes what differs in the records to score: the
	// codec, labels of a model that does not know any, the layout of csv. Its error
	// is returned as it is.
	Adapt func(*codec.Signature) error
	// Columns are those of csv records, if they are not those of the training data.
	// Columns of the model count by their names, others are ignored.
	Columns []string
	// Strict says that all records are in the codec. Otherwise a record that is a
	// JSON object is read as one where the codec is libsvm, csv, avro or protobuf.
	Strict bool
	// Schemas and Written are for avro and protobuf, as in codec.Options.
	Schemas codec.Schemas
	Written *codec.WrittenSchema

	// Threshold, from 0 to 1, predicts the positive label of two where its
	// probability is at least so large; 0 does so where the score is not negative.
	Threshold float64
	// Contributions is how many a prediction has; see [Predictor.Contributions].
	Contributions int
}

// Scorer scores records as they come: bytes in, label, probability and score out.
// It reads every form of record that training reads, by what the model says about
// the data it was trained on, and always uses the newest version of its model. It is
// safe for concurrent use.
type Scorer struct {
	o       ScorerOptions
	current func() *Version
	live    *Live // nil unless it follows
	close   func() error

	mu   sync.Mutex
	last atomic.Pointer[Scorer] // that of the newest version

	// Of a Scorer that stays with one version, by which current then answers.
	version *Version
	records *records

	batches sync.Pool // of *Batch
}

// ErrNoModel is returned while there is no version of the model yet.
var ErrNoModel = errors.New("there is no model yet")

// ErrNoProbability is the error of records that have no label under a Threshold.
var ErrNoProbability = errors.New("the model has no probabilities, which a threshold needs: fewer than 200 predictions had been compared with their labels, or an older version made it")

// Open returns a Scorer with the model of a file, or one that follows a model
// topic, for whose first version it waits. It follows until Close or the end of ctx.
func Open(ctx context.Context, o ScorerOptions) (*Scorer, error) {
	switch {
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

// NewScorer returns a Scorer with the models that current returns, such as Current
// of a Live: nil while there is none. The options' File, Models and Follow are not
// looked at. It fails where records cannot be read for the model of the moment.
func NewScorer(current func() *Version, o ScorerOptions) (*Scorer, error) {
	s := newScorer(current, o)
	if current() == nil {
		return s, nil
	}
	_, err := s.Pin()
	return s, err
}

func newScorer(current func() *Version, o ScorerOptions) *Scorer {
	s := &Scorer{o: o, current: current}
	s.batches.New = func() any { return new(Batch) }
	return s
}

// Close stops following, and closes Models. A Scorer can be used afterwards.
func (s *Scorer) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// Err returns why no newer version will come; nil for a model from a file, and as
// long as one is followed.
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

// Pin returns a Scorer that stays with the version of the moment.
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

// WithColumns returns a Scorer with the same models for csv records with other
// columns; see ScorerOptions.
func (s *Scorer) WithColumns(names []string) *Scorer {
	o := s.o
	o.Columns = names
	return newScorer(s.current, o)
}

// Codec returns the codec of the records, or nil while there is no model.
// codec.FieldCounts has what it has noticed in events.
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

// TakesJSON reports whether a record may be a JSON object though the codec is
// another one; see Strict of ScorerOptions.
func (s *Scorer) TakesJSON() bool {
	s, err := s.Pin()
	return err == nil && s.records.either
}

// Labels returns the classes as text, by number, of two the positive one second;
// nil for a regression, and while there is no model.
func (s *Scorer) Labels() []string {
	s, err := s.Pin()
	if err != nil {
		return nil
	}
	return s.records.texts
}

// Inputs says what a record has.
func (s *Scorer) Inputs() (codec.Inputs, error) {
	s, err := s.Pin()
	if err != nil {
		return codec.Inputs{}, err
	}
	return s.records.inputs()
}

// Score scores one record. The error is that of the prediction.
func (s *Scorer) Score(record []byte) (Prediction, error) { return s.one(record, false) }

// ScoreMap scores the fields of one record, whatever the codec: those of an event,
// features by their names, or x, a vector, each as encoding/json understands it.
func (s *Scorer) ScoreMap(fields map[string]any) (Prediction, error) {
	s, err := s.Pin()
	if err != nil {
		return Prediction{Err: err}, err
	}
	record, err := s.records.row(fields)
	if err != nil {
		return Prediction{Err: err}, err
	}
	return s.one(record, true)
}

func (s *Scorer) one(record []byte, inJSON bool) (Prediction, error) {
	b := s.batches.Get().(*Batch)
	defer s.batches.Put(b)
	b.Records = append(b.Records[:0], stream.Record{Value: record})
	b.JSON = inJSON
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

// Decode reads a record into an example as it is for the model, without scoring it:
// see stream.RecordDecoder.
func (s *Scorer) Decode(ctx context.Context, a *stream.Arena, r *stream.Record, ex *stream.Example) error {
	s, err := s.Pin()
	if err != nil {
		return err
	}
	return s.records.decode(ctx, a, r, false, ex)
}

// A Batch is a list of records that are scored together, with the memory that this
// takes, to be used again. The zero value is ready for use, by one goroutine at a
// time.
type Batch struct {
	Records []stream.Record
	// JSON says that the records are JSON objects, whatever the codec.
	JSON bool
	// Predictions are those of the records, all of one version of the model. They
	// are valid until the batch is scored again.
	Predictions []Prediction

	arena  stream.Arena
	ex     stream.Example
	xs     []stream.Vec
	at     []int // the record of each of xs
	f      []float64
	scores []float64 // of more than two classes
}

// Large reports whether the batch holds more memory than is good to keep between
// small ones.
func (b *Batch) Large() bool { return len(b.xs) > 4096 }

// Clear drops what refers to records and models.
func (b *Batch) Clear() {
	clear(b.Records[:cap(b.Records)])
	clear(b.Predictions[:cap(b.Predictions)])
}

// ScoreBatch scores the records of b, spread over the processors where they are
// many. Its error is about the model; those of records are in their predictions.
// It waits for schemas of records until ctx ends.
func (s *Scorer) ScoreBatch(ctx context.Context, b *Batch) error {
	s, err := s.Pin()
	if err != nil {
		return err
	}
	v, r := s.version, s.records
	b.arena.Reset()
	b.Predictions, b.xs, b.at = b.Predictions[:0], b.xs[:0], b.at[:0]
	for i := range b.Records {
		b.ex = stream.Example{}
		p := Prediction{Model: v.Update.Model, Version: v.Update.Version, of: r}
		err := r.decode(ctx, &b.arena, &b.Records[i], b.JSON, &b.ex)
		p.ID = b.ex.ID
		if err != nil {
			p.Err = err
		} else {
			p.Y, p.Class, p.Labelled = b.ex.Y, b.ex.Class, b.ex.Labelled
			b.xs, b.at = append(b.xs, b.ex.X), append(b.at, i)
		}
		b.Predictions = append(b.Predictions, p)
	}
	if v.Classes() > 2 {
		s.classes(b)
	} else {
		s.decide(b)
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
		best := algos.Largest(scores)
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
		if n := s.o.Contributions; n > 0 {
			if list, constant, ok := s.version.Contributions(b.xs[k]); ok {
				p.Contributions, p.Constant = append([]Contribution{}, list[:min(len(list), n)]...), constant
			}
		}
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
