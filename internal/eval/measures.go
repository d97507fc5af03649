package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"github.com/streamsvm/streamsvm/stream"
)

// Number is a float64 that is null in JSON if it is NaN or infinite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler; null becomes NaN.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Percent formats a fraction as "12.34 %", NaN as "-".
func Percent[F ~float64](v F) string {
	if v != v {
		return "-"
	}
	return strconv.FormatFloat(100*float64(v), 'f', 2, 64) + " %"
}

// Measures describe the quality of predictions. Measures that do not apply are NaN;
// the ones for regression are nil for a classifier.
type Measures struct {
	Accuracy Number `json:"accuracy"`
	Error    Number `json:"error"` // 1 − Accuracy
	Hinge    Number `json:"hinge"` // mean of max(0, 1 − y·f(x))
	Probability
	// BalancedAccuracy is the mean of the accuracies on the two classes.
	BalancedAccuracy Number `json:"balanced_accuracy"`
	// AUC is the probability that a positive example has a higher score than a
	// negative one, ties counting half. It is exact over the window. Over all
	// examples it is computed from a histogram of scores with bins 1/64 of an
	// octave wide, as if scores in one bin were tied.
	AUC Number `json:"auc"`
	// Hits counts the examples by true and predicted class, the negative one first.
	Hits   [2][2]uint64 `json:"-"`
	Kappa  Number       `json:"kappa"`   // Cohen's kappa; 1: perfect, 0: as good as chance
	KappaT Number       `json:"kappa_t"` // 1: perfect, 0: as good as predicting the previous label
	// Baseline has accuracies to compare with.
	Baseline Baseline `json:"baseline"`

	// Classes describes each class if there are more than two, by number.
	// BalancedAccuracy is then the mean recall of the classes seen; Hinge and AUC
	// do not apply.
	Classes []Class `json:"classes,omitempty"`

	MAE  *Number `json:"mae,omitempty"`  // mean absolute error
	RMSE *Number `json:"rmse,omitempty"` // root of the mean squared error
	R2   *Number `json:"r2,omitempty"`   // 1 − mean squared error / variance of the labels
}

// List returns the applicable measures, under the names that they have in published
// models, metrics and gate rules, in a fixed order. classes says that there are more
// than two. Without examples the values are NaN.
func (m *Measures) List(classes bool) []stream.Measure {
	var list []stream.Measure
	put := func(name string, v Number) { list = append(list, stream.Measure{Name: name, Value: float64(v)}) }
	if m.MAE != nil {
		put("mae", *m.MAE)
		put("rmse", *m.RMSE)
		put("r2", *m.R2)
		return list
	}
	put("accuracy", m.Accuracy)
	if !classes {
		put("hinge", m.Hinge)
	}
	put("log_loss", m.LogLoss)
	put("brier", m.Brier)
	if !classes {
		put("brier_skill", m.BrierSkill)
	}
	put("ece", m.ECE)
	put("ece_noise", m.ECENoise)
	put("balanced_accuracy", m.BalancedAccuracy)
	if !classes {
		put("auc", m.AUC)
	}
	put("kappa", m.Kappa)
	put("kappa_t", m.KappaT)
	put("majority", m.Baseline.Majority)
	put("no_change", m.Baseline.NoChange)
	return list
}

// rarely is the share of a class below which accuracy says little.
const rarely = 0.2

// Rare reports whether a class has less than a fifth of the examples, and which; 0
// is the negative one.
func (m *Measures) Rare() (class int, yes bool) {
	negative, positive := m.Hits[0][0]+m.Hits[0][1], m.Hits[1][0]+m.Hits[1][1]
	if positive < negative {
		class = 1
	}
	n := negative + positive
	return class, n > 0 && float64(min(negative, positive)) < rarely*float64(n)
}

// Recall returns the share of the examples of a class that were predicted
// correctly.
func (m *Measures) Recall(class int) Number {
	return Number(float64(m.Hits[class][class]) / float64(m.Hits[class][0]+m.Hits[class][1]))
}

// Precision returns the share of the predictions of a class that were correct.
func (m *Measures) Precision(class int) Number {
	return Number(float64(m.Hits[class][class]) / float64(m.Hits[0][class]+m.Hits[1][class]))
}

// Baseline has the accuracies, on the same examples, of two rules that ignore the
// features.
type Baseline struct {
	// Majority predicts the class that has been the most frequent so far; if two
	// are equally frequent, the positive one.
	Majority Number `json:"majority"`
	// NoChange predicts the previous label. On the first example it counts as
	// wrong.
	NoChange Number `json:"no_change"`
}

// String formats the baselines for people.
func (b Baseline) String() string {
	return fmt.Sprintf("larger class so far %s, label before %s", Percent(b.Majority), Percent(b.NoChange))
}

// Window has measures over the latest examples.
type Window struct {
	Examples int `json:"examples"`
	Measures
	// Confusion counts examples by true and predicted class, if there are more than
	// two.
	Confusion [][]uint64 `json:"confusion,omitempty"`
}

// Summary has measures over all examples and over the window.
type Summary struct {
	Measures
	// Interval is a 95 % confidence interval of the accuracy, by a bootstrap of
	// blocks of consecutive examples, whose errors may be dependent. It is nil if
	// there are too few examples, for regression, and unless Final made the
	// summary.
	Interval *[2]Number `json:"interval"`
	Window   Window     `json:"window"`
	// Weighted is nil while all weights are 1.
	Weighted *Weighted `json:"weighted,omitempty"`
	// Cost is the mean cost of predicting the label with the least expected cost,
	// over the examples with a probability; nil without costs.
	Cost *Number `json:"mean_cost,omitempty"`
}

// warnFrom is the number of examples from which an accuracy is worth a warning.
const warnFrom = 100

// Warnings returns a sentence for each baseline that is more accurate than the
// learner, over all n examples or over the window.
func (s *Summary) Warnings(n uint64) (list []string) {
	for _, m := range []struct {
		*Measures
		n    uint64
		over string
	}{{&s.Measures, n, "all"}, {&s.Window.Measures, uint64(s.Window.Examples), "the last"}} {
		for _, b := range []struct {
			accuracy Number
			rule     string
		}{{m.Baseline.Majority, "always predicting the class that is more frequent so far"}, {m.Baseline.NoChange, "predicting the label of the example before again"}} {
			if m.n >= warnFrom && b.accuracy > m.Accuracy {
				list = append(list, fmt.Sprintf("Over %s %d examples the learner is right in %s, %s in %s.", m.over, m.n, Percent(m.Accuracy), b.rule, Percent(b.accuracy)))
			}
		}
	}
	return list
}

// Test has the measures on a held-out set.
type Test struct {
	Examples int    `json:"examples"`
	Accuracy Number `json:"accuracy"`
	Error    Number `json:"error"`
	AUC      Number `json:"auc"`
	// With more than two classes, as in Measures.
	BalancedAccuracy Number  `json:"balanced_accuracy,omitzero"`
	Classes          []Class `json:"classes,omitempty"`

	MAE  *Number `json:"mae,omitempty"`
	RMSE *Number `json:"rmse,omitempty"`
	R2   *Number `json:"r2,omitempty"`
}

func noMeasures() Measures {
	nan := Number(math.NaN())
	return Measures{Accuracy: nan, Error: nan, Hinge: nan, Probability: noProbability(), BalancedAccuracy: nan, AUC: nan, Kappa: nan, KappaT: nan, Baseline: Baseline{nan, nan}}
}

// regression sets the measures from mean absolute and squared error and the
// variance of the labels.
func (m *Measures) regression(abs, sq, variance float64) {
	mae, rmse, r2 := Number(abs), Number(math.Sqrt(sq)), Number(math.NaN())
	if variance > 0 {
		r2 = Number(1 - sq/variance)
	}
	m.MAE, m.RMSE, m.R2 = &mae, &rmse, &r2
}

// errors sets the regression measures from scores and labels.
func (m *Measures) errors(scores, labels []float64) {
	n := float64(len(scores))
	distance, spread := floats.Distance(scores, labels, 2), Spread(labels)
	m.regression(floats.Distance(scores, labels, 1)/n, distance*distance/n, spread*spread/n)
}

// Spread returns the root of the sum of squared distances from the mean.
func Spread(values []float64) float64 {
	mean := floats.Sum(values) / float64(len(values))
	return floats.Distance(values, slices.Repeat([]float64{mean}, len(values)), 2)
}

// Evaluate compares scores with as many labels. The AUC is exact.
func Evaluate(regress bool, scores, labels []float64) Test {
	nan := Number(math.NaN())
	t := Test{Examples: len(scores), Accuracy: nan, Error: nan, AUC: nan}
	if regress {
		var m Measures
		m.errors(scores, labels)
		t.MAE, t.RMSE, t.R2 = m.MAE, m.RMSE, m.R2
		return t
	}
	right := 0
	for i := range scores {
		if class(scores[i]) == class(labels[i]) {
			right++
		}
	}
	if len(scores) > 0 {
		t.Accuracy = Number(float64(right) / float64(len(scores)))
		t.Error = 1 - t.Accuracy
		t.AUC = Number(AUC(scores, labels))
	}
	return t
}
