package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Rule says what a challenger must achieve to become the champion.
type Rule struct {
	// Measure is the loss that is compared: Error, BrierScore or MAE.
	Measure string
	// Margin is by how much the challenger's loss may be higher than the champion's,
	// in the unit of the loss; a negative margin demands an improvement.
	Margin float64
	// Examples is the least number of labelled examples of a trial, from 200 to 10^7.
	Examples int
	// Demote, if positive, is by how much the champion's loss must be higher than that
	// of the one before for a rollback; 0 never rolls back.
	Demote float64
	// Limits must hold for the challenger alone, over the examples of the trial.
	Limits []Limit
}

// Limit is a bound on a measure.
type Limit struct {
	Measure string
	Least   bool // Value is the least that passes, not the most
	Value   float64
}

// Auto is the text of the default rule of a task.
const Auto = "auto"

// The losses that can be compared: 1 − accuracy; the squared error of the probability,
// for K classes half of the sum over all; the absolute error, capped at four standard
// deviations of the labels.
const (
	Error      = "error"
	BrierScore = "brier"
	MAE        = "mae"
	accuracy   = "accuracy"
)

const (
	defaultExamples = 5000
	defaultMargin   = 0.002
	leastExamples   = 200
	mostExamples    = 10_000_000
)

// The measures that can be limited: with more than two classes, with two, and for a
// regression.
var (
	ofClasses    = []string{accuracy, Error, "balanced_accuracy", "kappa", "kappa_t"}
	ofTwo        = append(slices.Clone(ofClasses), BrierScore, "brier_skill", "ece", "log_loss", "auc")
	ofRegression = []string{MAE, "rmse", "r2"}
)

// ParseRule reads clauses separated by semicolons:
//
//	brier <= champion + 0.002; ece <= 0.05; examples >= 5000; demote >= 0.01
//
// At most one clause compares with the champion; without one the default comparison
// applies. Regressions and more than two classes have other measures. The error names
// the clause.
func ParseRule(text string, regress, classes bool) (Rule, error) {
	r := Rule{Measure: BrierScore, Margin: defaultMargin, Examples: defaultExamples}
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
	case !slices.Contains(known, name) && !(relative != "" && name == BrierScore && !slices.Contains(known, MAE)):
		return fmt.Errorf("there is no such measure here%s; there are %s", spell.DidYouMean(name, known), strings.Join(known, ", "))
	case relative == "":
		r.Limits = append(r.Limits, Limit{name, least, v})
	case name == accuracy:
		if !least {
			return errors.New("want accuracy >= champion")
		}
		r.Measure, r.Margin = Error, -v
	case name == BrierScore || name == Error || name == MAE:
		if least {
			return fmt.Errorf("less is better: want %s <= champion", name)
		}
		r.Measure, r.Margin = name, v
	default:
		return errors.New("it cannot be compared, as brier, error, accuracy and mae can")
	}
	return nil
}

// String writes the rule in the form that ParseRule reads.
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
