package predictor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/trainer"
)

// recordList is a stream of records in memory.
type recordList struct{ values [][]byte }

func (l *recordList) Fetch(_ context.Context, dst []stream.Record) ([]stream.Record, error) {
	if l.values == nil {
		return dst, io.EOF
	}
	for i, v := range l.values {
		dst = append(dst, stream.Record{Topic: "t", Offset: int64(i), Value: v})
	}
	l.values = nil
	return dst, nil
}

func (*recordList) Close() error { return nil }

// train returns a model of the records, as the command train makes it.
func train(values [][]byte, name string, o codec.Options) (*predictor.Predictor, error) {
	d, err := codec.NewDiscovery(name, o)
	if err != nil {
		return nil, err
	}
	job := trainer.Job{
		Options:   trainer.Options{Learner: "sbp", Set: map[string]string{"kernel": "rbf", "gamma": "0.5"}, Seed: 1, Tune: trainer.TuneOff, Warmup: 200},
		Discovery: d,
		Open:      func(context.Context, stream.Offsets) (stream.Source, error) { return &recordList{values}, nil },
	}
	res, err := trainer.Run(context.Background(), job)
	if err != nil {
		return nil, err
	}
	return res.Predictor()
}

// purchase is number i of purchases, of which those of a kind are fraud.
func purchase(i int) (amount int, country string, hour int, fraud bool) {
	amount, country, hour = i%7*30, []string{"DE", "FR", "BR"}[i%3], i%5*6
	return amount, country, hour, amount > 80 && country == "BR"
}

// fraudModel writes a model of purchases to a file: JSON events.
func fraudModel() (path string, remove func()) {
	var events [][]byte
	for i := range 1200 {
		amount, country, hour, fraud := purchase(i)
		events = append(events, fmt.Appendf(nil, `{"amount":%d,"country":%q,"hour":%d,"fraud":%t}`, amount, country, hour, fraud))
	}
	p, err := train(events, "json", codec.Options{Labels: codec.Auto, Events: codec.Auto, Label: "fraud"})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "scorer")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(dir, "fraud.ssm")
	if err := p.Save(path); err != nil {
		log.Fatal(err)
	}
	return path, func() { os.RemoveAll(dir) }
}

// form is one of the forms of records that training reads.
type form struct {
	name    string
	codec   string
	options codec.Options
	record  func(i int) []byte // labelled
	fields  func(i int) map[string]any
	label   [2]any // not fraud, and fraud
}

func forms(t *testing.T) []form {
	vector := func(i int) (x []float32, y float64) {
		amount, country, hour, fraud := purchase(i)
		x = []float32{float32(amount), float32(hour), 0}
		if country == "BR" {
			x[2] = 1
		}
		if fraud {
			return x, 1
		}
		return x, -1
	}
	encoded := func(name string, sparse bool) func(i int) []byte {
		c, err := codec.New(name, codec.Options{Labels: "pm1"})
		if err != nil {
			t.Fatal(err)
		}
		return func(i int) []byte {
			x, y := vector(i)
			ex := stream.Example{X: stream.Vec{Val: x}, Y: y, Labelled: true}
			if sparse {
				ex.X.Idx = []int32{0, 1, 2}
			}
			b, err := c.Append(nil, &ex)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	vectorFields := func(i int) map[string]any { x, _ := vector(i); return map[string]any{"x": x} }
	eventFields := func(i int) map[string]any {
		amount, country, hour, _ := purchase(i)
		return map[string]any{"amount": amount, "country": country, "hour": hour}
	}
	auto := codec.Options{Labels: codec.Auto, Events: codec.Auto}
	events, rows := auto, auto
	events.Label = "fraud"
	rows.CSV = codec.CSVOptions{Header: true, Columns: []string{"amount", "hour", "abroad", "fraud"}, LabelColumn: "fraud", Comma: ','}
	eventRows := rows
	eventRows.CSV.Columns = []string{"amount", "country", "hour", "fraud"}
	pm1, words := [2]any{-1., 1.}, [2]any{"no", "yes"}
	return []form{
		{"JSON events", "json", events, func(i int) []byte {
			amount, country, hour, fraud := purchase(i)
			return fmt.Appendf(nil, `{"amount":%d,"country":%q,"hour":%d,"fraud":%t}`, amount, country, hour, fraud)
		}, eventFields, [2]any{false, true}},
		{"JSON vectors", "json", auto, encoded("json", false), vectorFields, pm1},
		{"LIBSVM", "libsvm", auto, encoded("libsvm", true), func(i int) map[string]any {
			x, _ := vector(i)
			return map[string]any{"x": map[string]any{"1": x[0], "2": x[1], "3": x[2]}}
		}, pm1},
		{"MessagePack", "msgpack", auto, encoded("msgpack", false), vectorFields, pm1},
		{"CSV vectors", "csv", rows, func(i int) []byte {
			x, y := vector(i)
			return fmt.Appendf(nil, "%v,%v,%v,%s", x[0], x[1], x[2], words[int(y+1)/2])
		}, func(i int) map[string]any {
			x, _ := vector(i)
			return map[string]any{"amount": x[0], "hour": x[1], "abroad": x[2]}
		}, words},
		{"CSV events", "csv", eventRows, func(i int) []byte {
			amount, country, hour, fraud := purchase(i)
			return fmt.Appendf(nil, "%d,%s,%d,%s", amount, country, hour, words[map[bool]int{true: 1}[fraud]])
		}, eventFields, words},
	}
}

// TestScorer scores records of every form that training reads: as bytes, alone and
// many at a time, and as maps. What is predicted is what the model says of the
// vector that the codec makes, in the labels of the data.
func TestScorer(t *testing.T) {
	for _, f := range forms(t) {
		t.Run(f.name, func(t *testing.T) {
			var values [][]byte
			for i := range 1200 {
				values = append(values, f.record(i))
			}
			p, err := train(values, f.codec, f.options)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "m.ssm")
			if err := p.Save(path); err != nil {
				t.Fatal(err)
			}
			s, err := predictor.Open(t.Context(), predictor.ScorerOptions{File: path})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b := new(predictor.Batch)
			for _, v := range values[:100] {
				b.Records = append(b.Records, stream.Record{Value: v})
			}
			if err := s.ScoreBatch(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			right := 0
			for i, v := range values[:100] {
				got, err := s.Score(v)
				if err != nil {
					t.Fatalf("%s: %v", v, err)
				}
				var ex stream.Example
				if err := s.Decode(t.Context(), nil, &stream.Record{Value: v}, &ex); err != nil {
					t.Fatal(err)
				}
				model := s.Current()
				score := model.Decision(ex.X)
				want := f.label[0]
				if score >= 0 {
					want = f.label[1]
				}
				if got.Score != score || got.Value != model.Predict(ex.X) || got.Label != want {
					t.Fatalf("%s: %+v, want label %v and score %v", v, got, want, score)
				}
				if q, known := model.Probability(score); !known || got.Probability != q {
					t.Fatalf("%s: probability %v, want %v, %v", v, got.Probability, q, known)
				}
				if got.Value == got.Y {
					right++
				}
				text := string(got.AppendJSON(nil, nil))
				if many := string(b.Predictions[i].AppendJSON(nil, nil)); many != text {
					t.Fatalf("%s: %s, among many %s", v, text, many)
				}
				m, err := s.ScoreMap(f.fields(i))
				if err != nil || m.Score != score || m.Label != want || m.Labelled {
					t.Fatalf("%v: %+v, %v, want label %v and score %v", f.fields(i), m, err, want, score)
				}
			}
			if right < 90 {
				t.Errorf("%d of 100 are right", right)
			}
		})
	}
}

// TestScorerErrors: what cannot be scored is an error that names the field.
func TestScorerErrors(t *testing.T) {
	path, remove := fraudModel()
	defer remove()
	s, err := predictor.Open(t.Context(), predictor.ScorerOptions{File: path})
	if err != nil {
		t.Fatal(err)
	}
	for record, want := range map[string]string{
		`{"amount":"much"}`: "feature, amount: ",
		`{"amount":`:        "decode, amount: ",
		``:                  "decode: the value is empty",
		`1 1:2`:             "decode: ",
	} {
		p, err := s.Score([]byte(record))
		var field *stream.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) || p.Err != err || p.Label != nil {
			t.Errorf("%q: %+v, %v, want %q", record, p, err, want)
		}
	}
	for _, v := range []any{func() {}, math.NaN(), []float64{math.Inf(1)}} {
		var field *stream.FieldError
		if _, err := s.ScoreMap(map[string]any{"amount": v, "country": "BR"}); !errors.As(err, &field) || field.Field != "amount" {
			t.Errorf("%T: %v", v, err)
		}
	}
	none, err := s.ScoreMap(nil)
	if empty, err2 := s.ScoreMap(map[string]any{}); err != nil || err2 != nil || none.Score != empty.Score {
		t.Errorf("no map: %+v, %v; an empty one: %+v, %v", none, err, empty, err2)
	}
	p, err := s.Score([]byte(`{"id":"a","amount":120,"country":"BR","hour":3}`))
	if text := string(p.AppendJSON(nil, nil)); err != nil || !strings.Contains(text, `"label":true}`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, o := range []predictor.ScorerOptions{{}, {File: path, Models: &list{}}, {File: path + "x"}, {File: path, Threshold: 1.1}, {File: path, Threshold: math.NaN()}} {
		if _, err := predictor.Open(t.Context(), o); err == nil {
			t.Errorf("%+v is opened", o)
		}
	}
	adapted := errors.New("no")
	if _, err := predictor.Open(t.Context(), predictor.ScorerOptions{File: path, Adapt: func(*codec.Signature) error { return adapted }}); err != adapted {
		t.Error(err)
	}
	// A program without Avro scores JSON with a model that was trained on it.
	avro, err := predictor.Open(t.Context(), predictor.ScorerOptions{File: path, Adapt: func(sig *codec.Signature) error { sig.Codec = "avro"; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := avro.Score([]byte(`{"amount":120,"country":"BR","hour":3}`)); err != nil || p.Label != true {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := avro.Score([]byte("\x00\x00\x00\x00\x01\x02")); !errors.Is(err, codec.ErrNotRegistered) {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = predictor.Open(t.Context(), predictor.ScorerOptions{File: path, Adapt: func(sig *codec.Signature) error { sig.Codec = "morse"; return nil }})
	if _, ok := errors.AsType[*predictor.RecordsError](err); !ok {
		t.Error(err)
	}
}

// TestScorerCosts: with costs labels are those of the least expected cost, in a Scorer, by
// Predict, and among a trainer's predictions.
func TestScorerCosts(t *testing.T) {
	path, remove := fraudModel()
	defer remove()
	record := []byte(`{"amount":120,"country":"BR","hour":6}`)
	for cost, want := range map[float64]bool{1e-3: false, 1e3: true} {
		p, err := predictor.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		p.WithCosts(1, cost)
		s, err := predictor.NewScorer(func() *predictor.Version { return &predictor.Version{Predictor: p} }, predictor.ScorerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Score(record)
		if err != nil || got.Label != want || (p.Label(got.Score) > 0) != want {
			t.Errorf("cost %v: %+v, %v", cost, got, err)
		}
		l, err := predictor.NewLabels(algos.Classify, "false,true", 2)
		if err != nil {
			t.Fatal(err)
		}
		var set predictor.Prediction
		l.Costs = p.Costs()
		if l.Set(&set, got.Score, got.Probability, nil, nil); set.Label != want {
			t.Errorf("cost %v: the trainer's label is %v", cost, set.Label)
		}
	}
}

// TestScorerThreshold: with a threshold labels follow probabilities, which not all
// models have.
func TestScorerThreshold(t *testing.T) {
	path, remove := fraudModel()
	defer remove()
	p, err := predictor.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	record := []byte(`{"amount":120,"country":"BR","hour":6}`)
	for threshold, want := range map[float64]bool{0.01: true, 1: false} {
		s, err := predictor.NewScorer(func() *predictor.Version { return &predictor.Version{Predictor: p} }, predictor.ScorerOptions{Threshold: threshold})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Score(record); err != nil || got.Label != want {
			t.Errorf("threshold %v: %+v, %v", threshold, got, err)
		}
	}
	without := predictor.Version{Predictor: quadrants(1)}
	s, err := predictor.NewScorer(func() *predictor.Version { return &without }, predictor.ScorerOptions{Threshold: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Score([]byte(`{"x":[1,2]}`)); err != predictor.ErrNoProbability {
		t.Error(err)
	}
}

// TestScorerFollows: a Scorer uses the newest version, from any goroutine, and each
// batch has one.
func TestScorerFollows(t *testing.T) {
	sub := make(updates, 3)
	sub <- update(quadrants(1), 1)
	s, err := predictor.Open(t.Context(), predictor.ScorerOptions{Models: sub})
	if err != nil {
		t.Fatal(err)
	}
	record := []byte(`{"x":[0.5,0.5],"id":"a"}`)
	first, err := s.Score(record)
	if err != nil || first.Label != 1. || first.Model != "clicks" || first.Version != 1 || first.ID != "a" {
		t.Fatalf("%+v, %v", first, err)
	}
	pinned, err := s.Pin()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b := new(predictor.Batch)
			for range 200 {
				b.Records = append(b.Records, stream.Record{Value: bytes.Clone(record)})
			}
			for seen := uint64(0); seen < 2; {
				if err := s.ScoreBatch(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				seen = b.Predictions[0].Version
				for _, p := range b.Predictions {
					if p.Err != nil || p.Version != seen || p.Label != map[uint64]float64{1: 1, 2: -1}[seen] {
						t.Errorf("%+v in a batch of version %d", p, seen)
						return
					}
				}
			}
		})
	}
	sub <- update(quadrants(-1), 2)
	wg.Wait()
	if p, err := pinned.Score(record); err != nil || p.Version != 1 {
		t.Errorf("a Scorer that stays with version 1: %+v, %v", p, err)
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil || s.Err() == nil {
		t.Errorf("closed: %v, then %v", err, s.Err())
	}
	if p, err := s.Score(record); err != nil || p.Version != 2 {
		t.Errorf("after Close: %+v, %v", p, err)
	}
	none, err := predictor.NewScorer(func() *predictor.Version { return nil }, predictor.ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Score(record); err != predictor.ErrNoModel || none.Labels() != nil || none.Codec() != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := predictor.Open(ended, predictor.ScorerOptions{Models: make(updates)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// updates is a subscriber.
type updates chan *stream.Update

func (u updates) Next(ctx context.Context) (*stream.Update, error) {
	select {
	case x := <-u:
		return x, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (updates) Close() error { return nil }

// TestScorerColumns: columns of csv count by their names.
func TestScorerColumns(t *testing.T) {
	f := forms(t)[4]
	var values [][]byte
	for i := range 1200 {
		values = append(values, f.record(i))
	}
	p, err := train(values, f.codec, f.options)
	if err != nil {
		t.Fatal(err)
	}
	v := predictor.Version{Predictor: p}
	s, err := predictor.NewScorer(func() *predictor.Version { return &v }, predictor.ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, short := range []string{`{"x":[1,2]}`, `{"x":[1,2,3,4]}`} {
		var field *stream.FieldError
		if got, err := s.Score([]byte(short)); !errors.As(err, &field) || field.Reason != stream.ReasonDimension {
			t.Errorf("%s: %+v, %v", short, got, err)
		}
	}
	want, err := s.Score([]byte("120,6,1,yes"))
	if err != nil {
		t.Fatal(err)
	}
	other := s.WithColumns([]string{"abroad", "shop", "hour", "amount"})
	if got, err := other.Score([]byte("1,x,6,120")); err != nil || got.Score != want.Score || got.Labelled {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for record, want := range map[string][]string{"1,x,6,120": {"shop"}, `{"x":[120,6,1],"foo":1}`: {"foo"}, `{"x":[120,6,1]}`: nil} {
		b := predictor.Batch{Records: []stream.Record{{Value: []byte(record)}}, Fields: predictor.ReportFields}
		if err := other.ScoreBatch(t.Context(), &b); err != nil || b.Predictions[0].Err != nil || !slices.Equal(b.Predictions[0].Unknown, want) || len(b.Predictions[0].Missing) > 0 {
			t.Errorf("%s: %+v, %v, want the unknown fields %q", record, b.Predictions[0], err, want)
		}
		b.Fields = predictor.RefuseFields
		if err := other.ScoreBatch(t.Context(), &b); err != nil || (b.Predictions[0].Err == nil) != (want == nil) {
			t.Errorf("%s: %+v, %v, want an error: %v", record, b.Predictions[0], err, want != nil)
		}
	}
	if got, err := s.Score([]byte(`{"x":[120,6,1]}`)); err != nil || got.Score != want.Score {
		t.Errorf("as JSON: %+v, %v, want %+v", got, err, want)
	}
	strict, err := predictor.NewScorer(func() *predictor.Version { return &v }, predictor.ScorerOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := strict.Score([]byte(`{"x":[120,6,1]}`)); err == nil {
		t.Errorf("JSON where only csv is: %+v", got)
	}
	if _, err := s.WithColumns([]string{"amount"}).Score([]byte("1")); err == nil {
		t.Error("columns that lack features of the model are taken")
	}
	if _, err := s.ScoreMap(map[string]any{"amount": 1, "hour": 2}); err == nil || !strings.Contains(err.Error(), `"abroad"`) {
		t.Errorf("a map without a feature: %v", err)
	}
}

// TestBatchLarge: a batch of much data is not worth keeping, and one that has been
// cleared refers to nothing.
func TestBatchLarge(t *testing.T) {
	v := predictor.Version{Predictor: quadrants(1)}
	s, err := predictor.NewScorer(func() *predictor.Version { return &v }, predictor.ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := new(predictor.Batch)
	for n, want := range map[int]bool{1000: false, 1<<17 + 1: true} {
		b.Records = b.Records[:0]
		for range n {
			b.Records = append(b.Records, stream.Record{Value: []byte(`{"x":[1,2]}`)})
		}
		if err := s.ScoreBatch(t.Context(), b); err != nil || b.Large() != want {
			t.Errorf("%d records: large is %v, %v", n, b.Large(), err)
		}
	}
	b.Clear()
	for i := range b.Records {
		if b.Records[i].Value != nil || b.Predictions[i].Label != nil {
			t.Fatalf("record %d is kept", i)
		}
	}
}
