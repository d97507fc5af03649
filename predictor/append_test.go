package predictor

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
)

// printed is a prediction for encoding/json.
type printed struct {
	ID          string          `json:"id,omitempty"`
	Topic       string          `json:"topic,omitempty"`
	Partition   *int32          `json:"partition,omitempty"`
	Offset      *int64          `json:"offset,omitempty"`
	Decision    *eval.Number    `json:"decision,omitempty"`
	Probability json.RawMessage `json:"probability,omitempty"`
	Label       json.RawMessage `json:"label,omitempty"`
	Y           json.RawMessage `json:"y,omitempty"`
	Model       string          `json:"model,omitempty"`
	Version     uint64          `json:"version,omitempty"`
	Error       string          `json:"error,omitempty"`
}

// TestAppendJSON: predictions are what encoding/json makes of them, for numbers
// and texts that are hard to write.
func TestAppendJSON(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 1e-6, 9.99e-7, -1e-9, 1e-10, 1e20, 1e21, -1.5e300, math.MaxFloat64, 5e-324, math.NaN(), math.Inf(1)}
	texts := []string{"", "a", "a\"b", "ä\n<&>", "\xff"}
	classes := &records{labels: []any{"no", "yes"}, texts: []string{"no", "yes"}, inJSON: []string{`"no"`, `"yes"`}}
	encode := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for round := range 3000 {
		number := func() float64 {
			if r.IntN(2) == 0 {
				return numbers[r.IntN(len(numbers))]
			}
			return r.NormFloat64() * math.Exp(20*r.NormFloat64())
		}
		text := func() string { return texts[r.IntN(len(texts))] }
		p := Prediction{ID: text(), Score: number(), Value: number(), Y: r.NormFloat64(), Labelled: r.IntN(2) == 0, Model: text(), Version: r.Uint64N(3)}
		d := eval.Number(p.Score)
		want := printed{ID: p.ID, Decision: &d, Label: encode(eval.Number(p.Value)), Model: p.Model, Version: p.Version}
		if p.Labelled {
			want.Y = encode(p.Y)
		}
		if r.IntN(2) == 0 {
			p.of, p.Value, p.Y, p.Probability = classes, 1, -1, number()
			want.Label, want.Probability = encode("yes"), encode(eval.Number(p.Probability))
			if p.Labelled {
				want.Y = encode("no")
			}
		}
		if r.IntN(4) == 0 {
			p.Err = errors.New("x" + text())
			want.Error, want.Decision, want.Probability, want.Label, want.Y = p.Err.Error(), nil, nil, nil, nil
		}
		var at *stream.Record
		if r.IntN(2) == 0 {
			at = &stream.Record{Topic: text(), Partition: int32(r.IntN(3)), Offset: r.Int64N(3)}
			want.Topic, want.Partition, want.Offset = at.Topic, &at.Partition, &at.Offset
		}
		line := encode(want)
		if got := string(p.AppendJSON(nil, at)); got != string(line) {
			t.Fatalf("seed %d, round %d: %s, encoding/json %s", seed, round, got, line)
		}
		if at == nil && string(encode(p)) != string(line) {
			t.Fatalf("seed %d, round %d: MarshalJSON %s, want %s", seed, round, encode(p), line)
		}
	}
}
