package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/jsonenc"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

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

// TestAppendAnswer: answers are what encoding/json makes of them.
func TestAppendAnswer(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"", "a", "a\"b", "ä\n<&>"}
	for round := range 500 {
		v := &predictor.Version{Update: stream.Update{Model: texts[r.IntN(len(texts))], Version: r.Uint64N(2)}}
		want := answer{Model: v.Update.Model, Version: v.Update.Version, Predictions: []scored{}}
		var rows []predictor.Prediction
		for i := range r.IntN(4) {
			o := predictor.Prediction{ID: texts[r.IntN(len(texts))], Score: r.NormFloat64(), Value: float64(2*r.IntN(2) - 1)}
			d := eval.Number(o.Score)
			p := scored{ID: o.ID, Decision: &d, Label: jsonenc.AppendNumber(nil, o.Value)}
			if r.IntN(3) == 0 {
				o.Err = errors.New(texts[r.IntN(len(texts)-1)+1])
				p = scored{ID: o.ID, Index: &i, Error: o.Err.Error()}
			}
			rows, want.Predictions = append(rows, o), append(want.Predictions, p)
		}
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(want); err != nil {
			t.Fatal(err)
		}
		if got := append(appendRows(appendHead(nil, v), rows, 0), "]}\n"...); string(got) != b.String() {
			t.Fatalf("seed %d, round %d: %s, encoding/json %s", seed, round, got, b.String())
		}
	}
}
