package predictor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestLabels: a prediction that is put together from its numbers is written as the
// Scorer's own.
func TestLabels(t *testing.T) {
	for _, labels := range [][]any{{-1., 1.}, {"no", "yes"}, {false, true}, {"a", "b", "c"}} {
		var values [][]byte
		for i := range 1200 {
			k := i % len(labels)
			y, err := json.Marshal(labels[k])
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, fmt.Appendf(nil, `{"id":"k%d","x":[%v,%v],"y":%s}`, i, float64(k)+float64(i%7)/20, i%5, y))
		}
		p, err := train(values, "json", codec.Options{Labels: codec.Auto})
		if err != nil {
			t.Fatal(err)
		}
		v := &predictor.Version{Predictor: p, Update: stream.Update{Model: "m", Version: 3}}
		s, err := predictor.NewScorer(func() *predictor.Version { return v }, predictor.ScorerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b := predictor.Batch{}
		for i := range 30 {
			b.Records = append(b.Records, stream.Record{Topic: "t", Offset: int64(i), Value: values[i]})
		}
		if err := s.ScoreBatch(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		l, err := predictor.NewLabels(algos.Classify, p.Signature().Labels, p.Classes())
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Predictions {
			o := &b.Predictions[i]
			own := predictor.Prediction{ID: o.ID, Labelled: o.Labelled, Y: o.Y, Class: o.Class, Model: o.Model, Version: o.Version}
			decision := o.Score
			if o.Scores != nil {
				decision = o.Value
			}
			l.Set(&own, decision, o.Probability, o.Scores, o.Probabilities)
			if got, want := own.AppendJSON(nil, &b.Records[i]), o.AppendJSON(nil, &b.Records[i]); !bytes.Equal(got, want) {
				t.Errorf("%s, the Scorer writes %s", got, want)
			}
		}
	}
}
