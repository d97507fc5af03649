package main

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// prediction is one line of output, for encoding/json.
type prediction struct {
	ID        string       `json:"id,omitempty"`
	Topic     string       `json:"topic,omitempty"`
	Partition *int32       `json:"partition,omitempty"`
	Offset    *int64       `json:"offset,omitempty"`
	Decision  *eval.Number `json:"decision,omitempty"`
	Label     *eval.Number `json:"label,omitempty"`
	Y         *float64     `json:"y,omitempty"`
	Model     string       `json:"model,omitempty"`
	Version   uint64       `json:"version,omitempty"`
	Error     string       `json:"error,omitempty"`
}

// answer is what POST /predict returns, for encoding/json.
type answer struct {
	Model       string   `json:"model,omitempty"`
	Version     uint64   `json:"version,omitempty"`
	Predictions []scored `json:"predictions"`
}

// scored is a prediction, or the reason why there is none.
type scored struct {
	ID            string          `json:"id,omitempty"`
	Decision      *eval.Number    `json:"decision,omitempty"`
	Probability   json.RawMessage `json:"probability,omitempty"`
	Label         json.RawMessage `json:"label,omitempty"`
	Scores        json.RawMessage `json:"scores,omitempty"`
	Probabilities json.RawMessage `json:"probabilities,omitempty"`
	Index         *int            `json:"index,omitempty"`
	Error         string          `json:"error,omitempty"`
}

// TestOutcomeAppend: lines are what encoding/json makes of them.
func TestOutcomeAppend(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 1e-6, 9.99e-7, -1e-9, 1e-10, 1e20, 1e21, -1.5e300, math.MaxFloat64, 5e-324, math.NaN(), math.Inf(1)}
	texts := []string{"", "a", "a\"b", "ä\n<&>", "\xff"}
	for round := range 3000 {
		number := func() float64 {
			if r.IntN(2) == 0 {
				return numbers[r.IntN(len(numbers))]
			}
			return r.NormFloat64() * math.Exp(20*r.NormFloat64())
		}
		o := outcome{id: texts[r.IntN(len(texts))], decision: number(), label: number(), y: r.NormFloat64(), labelled: r.IntN(2) == 0}
		v := &predictor.Version{Update: stream.Update{Model: texts[r.IntN(len(texts))], Version: r.Uint64N(3)}}
		d, l := eval.Number(o.decision), eval.Number(o.label)
		want := prediction{ID: o.id, Decision: &d, Label: &l, Model: v.Update.Model, Version: v.Update.Version}
		if o.labelled {
			want.Y = &o.y
		}
		if r.IntN(4) == 0 {
			o.err = errors.New("x" + texts[r.IntN(len(texts))])
			want.Error, want.Decision, want.Label, want.Y = o.err.Error(), nil, nil, nil
		}
		var rec *stream.Record
		if r.IntN(2) == 0 {
			rec = &stream.Record{Topic: texts[r.IntN(len(texts))], Partition: int32(r.IntN(3)), Offset: r.Int64N(3)}
			want.Topic, want.Partition, want.Offset = rec.Topic, &rec.Partition, &rec.Offset
		}
		line, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(o.append(nil, &form{}, v, rec)); got != string(line) {
			t.Fatalf("seed %d, round %d: %s, encoding/json %s", seed, round, got, line)
		}
	}
}
