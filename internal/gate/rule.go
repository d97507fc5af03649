package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Rule says what a candidate must be.
type Rule struct {
	// Measure is what candidate and champion are compared by: one of Losses.
	Measure string
	// Margin is by how much, in terms of the loss, the candidate may be worse;
	// less than 0 is by how much it must be better.
	Margin float64
	// Examples is the least number of examples both are compared on.
	Examples int
	// Demote, if larger than 0, is by how much a champion must be worse than the one
	// before for that to come back.
	Demote float64
	// Limits must hold of the candidate by itself, over those examples.
	Limits []Limit
}

// Limit is a bound on a measure of package eval.
type Limit struct {
	Measure string
	Least   bool // it is the least value, not the largest
	Value   float64
}

// Auto is the text of the rule that a task has by default.
const Auto = "auto"

// The measures that may be compared, as losses: error is 1 − accuracy, brier the
// squared error of probabilities (of K classes half of the sum over all), mae
// the absolute error, which counts at most as much as four standard deviations of
// labels.
const (
	Error    = "error"
	Brier    = "brier"
	MAE      = "mae"
	accuracy = "accuracy"
)

// Defaults of a rule.
const (
	DefaultExamples = 5000
	defaultMargin   = 0.002
	leastExamples   = 200
	mostExamples    = 10_000_000
)

// What limits can be about; of more than two classes the first ones alone.
var (
	ofClasses    = []string{accuracy, Error, "balanced_accuracy", "kappa", "kappa_t"}
	ofTwo        = append(slices.Clone(ofClasses), Brier, "brier_skill", "ece", "log_loss", "auc")
	ofRegression = []string{MAE, "rmse", "r2"}
)

// Parse reads clauses between semicolons:
//
//	brier <= champion + 0.002; ece <= 0.05; examples >= 5000; demote >= 0.01
//
// At most one compares with the champion; where there is none, the default does.
// A regression has other measures, and so have more than two classes.
func Parse(text string, regress, classes bool) (Rule, error) {
	r := Rule{Measure: Brier, Margin: defaultMargin, Examples: DefaultExamples}
	known := ofTwo
	switch {
	case regress:
		r.Measure, r.Margin, known = MAE, 0, ofRegression
	case classes:
		known = ofClasses
	}
	if strings.TrimSpace(text) == Auto {
		return r, nil
	}
	seen := map[string]bool{}
	for clause := range strings.SplitSeq(text, ";") {
		if clause = strings.TrimSpace(clause); clause == "" {
			continue
		}
		if err := r.clause(clause, known, seen); err != nil {
			return r, fmt.Errorf("%q: %w", clause, err)
		}
	}
	if len(seen) == 0 {
		return r, errors.New("there is no clause")
	}
	return r, nil
}

func (r *Rule) clause(text string, known []string, seen map[string]bool) error {
	name, value, least := text, "", false
	for _, op := range []string{"<=", ">="} {
		if a, b, ok := strings.Cut(text, op); ok {
			name, value, least = strings.TrimSpace(a), strings.TrimSpace(b), op == ">="
		}
	}
	if value == "" {
		return errors.New("want MEASURE <= VALUE or MEASURE >= VALUE")
	}
	relative := ""
	if rest, ok := strings.CutPrefix(value, "champion"); ok {
		relative, value = "champion", strings.ReplaceAll(rest, " ", "")
		if value == "" {
			value = "0"
		} else if value[0] != '+' && value[0] != '-' {
			return fmt.Errorf("want champion + NUMBER or champion - NUMBER")
		}
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is not a number", value)
	}
	key := name + relative
	if relative != "" {
		key = relative
	}
	if seen[key] {
		return errors.New("there is such a clause already")
	}
	seen[key] = true
	switch {
	case name == "examples" || name == "demote":
		if relative != "" || !least {
			return fmt.Errorf("want %s >= NUMBER", name)
		}
		if name == "demote" {
			if v <= 0 {
				return errors.New("want a number larger than 0")
			}
			r.Demote = v
			return nil
		}
		if r.Examples = int(v); float64(r.Examples) != v || r.Examples < leastExamples || r.Examples > mostExamples {
			return fmt.Errorf("want a whole number from %d to %d", leastExamples, mostExamples)
		}
	case !slices.Contains(known, name) && !(relative != "" && name == Brier && !slices.Contains(known, MAE)):
		return fmt.Errorf("there is no such measure here%s; there are %s", spell.DidYouMean(name, known), strings.Join(known, ", "))
	case relative == "":
		r.Limits = append(r.Limits, Limit{name, least, v})
	case name == accuracy:
		if !least {
			return errors.New("want accuracy >= champion")
		}
		r.Measure, r.Margin = Error, -v
	case name == Brier || name == Error || name == MAE:
		if least {
			return fmt.Errorf("less is better: want %s <= champion", name)
		}
		r.Measure, r.Margin = name, v
	default:
		return errors.New("it cannot be compared, as brier, error, accuracy and mae can")
	}
	return nil
}

// String writes the rule as Parse reads it.
func (r Rule) String() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	s := r.Measure + " <= champion"
	switch {
	case r.Margin > 0:
		s += " + " + number(r.Margin)
	case r.Margin < 0:
		s += " - " + number(-r.Margin)
	}
	for _, l := range r.Limits {
		op := " <= "
		if l.Least {
			op = " >= "
		}
		s += "; " + l.Measure + op + number(l.Value)
	}
	s += "; examples >= " + strconv.Itoa(r.Examples)
	if r.Demote > 0 {
		s += "; demote >= " + number(r.Demote)
	}
	return s
}
