package predictor

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// explained returns the contributions to the prediction for a record, and the constant.
func explained(t *testing.T, pipe pipeline.Pipeline, record string) (map[string]float64, Prediction) {
	t.Helper()
	v := &Version{Predictor: &Predictor{pipe}}
	s, err := NewScorer(func() *Version { return v }, ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Explain([]byte(record))
	if err != nil {
		t.Fatal(err)
	}
	got, last := map[string]float64{}, math.Inf(1)
	for _, c := range list {
		if a := math.Abs(c.Value); a > last || a == 0 {
			t.Errorf("%s: not in order, or 0: %v", record, list)
		} else {
			last = a
		}
		got[c.Feature] = c.Value
	}
	p, err := s.one([]byte(record), Batch{Contributions: 1})
	if err != nil || len(p.Contributions) != min(1, len(list)) {
		t.Errorf("%s: %v, %v, want one", record, p.Contributions, err)
	}
	return got, p
}

func compareContributions(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if math.Abs(got[name]-v) > 1e-5*(1+math.Abs(v)) {
			t.Errorf("%s: %s contributes %v, want %v", what, name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestExplainLinear: for a linear model a contribution is weight times preprocessed value,
// and the contributions and the constant sum to the score.
func TestExplainLinear(t *testing.T) {
	var xs []*stream.Example
	for i := range 50 {
		xs = append(xs, &stream.Example{X: stream.Vec{Val: []float32{float32(1000 + i%10), float32(i % 7), float32(i % 2)}}})
	}
	w := []float64{0.5, -2, 3}
	for _, scale := range []string{prep.None, prep.Standard, prep.MinMax} {
		tr, err := prep.Fit(xs, prep.Options{Scale: scale})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range []algos.Task{algos.Classify, algos.Regress} {
			pipe := pipeline.Pipeline{Task: task, Transform: tr, Model: model.NewLinear(w, 0.25)}
			for _, x := range [][]float32{{1003, 5, 1}, {1009, 0, 0}} {
				z, want, sum := tr.Apply(stream.Vec{Val: x}), map[string]float64{}, 0.0
				for j := range w {
					if v := w[j] * float64(z.Val[j]); v != 0 {
						want[fmt.Sprintf("feature %d", j+1)] = v
						sum += v
					}
				}
				got, p := explained(t, pipe, fmt.Sprintf(`{"x":[%g,%g,%g]}`, x[0], x[1], x[2]))
				what := fmt.Sprint(scale, " ", task, " ", x)
				compareContributions(t, what, got, want)
				if math.Abs(sum+p.Constant-p.Score) > 1e-4 || math.Abs(p.Constant-0.25) > 1e-4 {
					t.Errorf("%s: %v and %v make %v, not %v", what, sum, p.Constant, sum+p.Constant, p.Score)
				}
			}
			// Sparse vectors, one of which lacks a feature whose mean is not 0.
			dense, _ := explained(t, pipe, `{"x":[1003,0,1]}`)
			sparse, _ := explained(t, pipe, `{"x":{"1":1003,"3":1}}`)
			compareContributions(t, "sparse "+scale, sparse, dense)
		}
	}
}

// TestExplainHashed: hashed features contribute what their slots do, signs included.
func TestExplainHashed(t *testing.T) {
	tr, err := prep.Fit(nil, prep.Options{Scale: prep.None, HashDim: 4})
	if err != nil {
		t.Fatal(err)
	}
	m := model.NewLinear([]float64{1, 10, 100, 1000}, 0)
	want := map[string]float64{}
	for j, v := range []float32{3, 0, 5} {
		if v != 0 {
			want[fmt.Sprintf("feature %d", j+1)] = m.Decision(tr.Apply(stream.Vec{Idx: []int32{int32(j)}, Val: []float32{v}}))
		}
	}
	got, _ := explained(t, pipeline.Pipeline{Task: algos.Classify, Transform: tr, Model: m}, `{"x":[3,0,5]}`)
	compareContributions(t, "hashed", got, want)
}

// eventSchema has the features amount, amount missing, country=BR, country=DE, country
// other, country missing, note#0 and note#1.
const eventSchema = `{"label":"y","fields":[{"name":"amount","type":"numeric","means":[40],"gaps":[true]},` +
	`{"name":"country","type":"categorical","categories":["BR","DE"],"gaps":[true]},{"name":"note","type":"text","hash":2}]}`

// TestExplainEvents: all features of a field are occluded together: a number becomes its
// mean, a category none, and a missing value contributes by its indicator.
func TestExplainEvents(t *testing.T) {
	w, half := []float64{0.1, 2, 3, -4, 5, 6, 0.5, 0.25}, math.Sqrt(0.5)
	pipe := pipeline.Pipeline{
		Task: algos.Classify, Transform: new(prep.Transform), Model: model.NewLinear(w, 1),
		Signature: codec.Signature{Codec: "json", Labels: "false,true", Schema: eventSchema, MaxFeatures: 1 << 20},
	}
	for _, wide := range []bool{false, true} {
		if wide { // sparse vectors
			pipe.Signature.Schema = strings.Replace(eventSchema, `"hash":2`, `"hash":1000`, 1)
		}
		for record, want := range map[string]map[string]float64{
			`{"amount":90,"country":"DE"}`:   {"amount": 0.1 * 50, "country": -4 * half},
			`{"amount":40,"country":"BR"}`:   {"country": 3 * half},
			`{"amount":0,"country":"XX"}`:    {"amount": -0.1 * 40, "country": 5 * half},
			`{"amount":null,"country":"BR"}`: {"amount": 2 * half, "country": 3 * half},
			`{}`:                             {"amount": 2 * half, "country": 6 * half},
		} {
			got, p := explained(t, pipe, record)
			compareContributions(t, record, got, want)
			if math.Abs(p.Constant-(1+0.1*40)) > 1e-5 {
				t.Errorf("%s: the constant is %v", record, p.Constant)
			}
		}
	}
}

// TestExplainClasses: of three classes the log odds of the predicted one count.
func TestExplainClasses(t *testing.T) {
	pipe := pipeline.Pipeline{
		Task: algos.Classify, Transform: new(prep.Transform),
		Model: ovr.NewModel([]algos.Model{model.NewLinear([]float64{1, 0}, 0), model.NewLinear([]float64{0, 1}, 0), model.NewLinear([]float64{-1, -1}, 0.5)}, make([]bool, 3)),
	}
	odds := func(a, b float64) float64 { // of the second class
		return b - math.Log(math.Exp(a)+math.Exp(0.5-a-b))
	}
	got, p := explained(t, pipe, `{"x":[1,2]}`)
	compareContributions(t, "classes", got, map[string]float64{"feature 1": odds(1, 2) - odds(0, 2), "feature 2": odds(1, 2) - odds(1, 0)})
	if math.Abs(p.Constant-odds(0, 0)) > 1e-9 {
		t.Errorf("the constant is %v, want %v", p.Constant, odds(0, 0))
	}
}

// TestExplainTooMuch: a record with too many features is predicted, but not explained.
func TestExplainTooMuch(t *testing.T) {
	n := maxExplained + 1
	v := &Version{Predictor: &Predictor{pipeline.Pipeline{Task: algos.Regress, Transform: new(prep.Transform), Model: model.NewLinear(make([]float64, n), 7)}}}
	s, err := NewScorer(func() *Version { return v }, ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record := []byte(`{"x":[` + strings.Repeat("1,", n-1) + `1]}`)
	if list, err := s.Explain(record); err == nil {
		t.Errorf("%d contributions", len(list))
	}
	if p, err := s.Score(record); err != nil || p.Score != 7 {
		t.Errorf("%v, %v", p, err)
	}
}
