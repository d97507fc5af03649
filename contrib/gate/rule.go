package gate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Rule is the condition for a challenger to become the champion.
type Rule struct {
	// Measure is the loss that is compared: Error, BrierScore or MAE.
	Measure string
	// Margin is the amount by which the challenger's loss may exceed the champion's, in the
	// unit of the loss; a negative margin demands an improvement.
	Margin float64
	// Examples is the minimum number of labelled examples in a trial, from 200 to 10^7.
	Examples int
	// Demote, if positive, is the amount by which the champion's loss must exceed the
	// previous champion's for a rollback; 0 never rolls back.
	Demote float64
	// Limits must hold for the challenger alone, over the examples of the trial.
	Limits []Limit
}

// Limit is a bound on a measure.
type Limit struct {
	Measure string
	Least   bool // Value is a lower bound, not an upper one
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
	for text := range strings.SplitSeq(text, ";") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		c, err := parseClause(text)
		if err == nil {
			err = r.apply(c, known, seen)
		}
		if err != nil {
			return r, fmt.Errorf("%q: %w", text, err)
		}
	}
	if len(seen) == 0 {
		return r, errors.New("there is no clause")
	}
	return r, nil
}

// clause is NAME <= VALUE or NAME >= VALUE. If it is relative, VALUE is added to the
// champion's.
type clause struct {
	name            string
	least, relative bool // least is >=
	value           float64
}

func parseClause(text string) (c clause, err error) {
	name, value, ok := strings.Cut(text, "<=")
	if !ok {
		name, value, c.least = strings.Cut(text, ">=")
	}
	c.name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if value == "" {
		return c, errors.New("want MEASURE <= VALUE or MEASURE >= VALUE")
	}
	if value, c.relative = strings.CutPrefix(value, "champion"); c.relative {
		switch value = strings.ReplaceAll(value, " ", ""); {
		case value == "":
			return c, nil
		case value[0] != '+' && value[0] != '-':
			return c, errors.New("want champion + NUMBER or champion - NUMBER")
		}
	}
	if c.value, err = strconv.ParseFloat(value, 64); err != nil || c.value-c.value != 0 {
		return c, fmt.Errorf("%q is not a number", value)
	}
	return c, nil
}

// apply applies a clause to the rule. known are the measures of the task, seen holds the
// subjects of earlier clauses.
func (r *Rule) apply(c clause, known []string, seen map[string]bool) error {
	about := c.name
	if c.relative {
		about = "champion"
	}
	if seen[about] {
		return errors.New("there is such a clause already")
	}
	seen[about] = true
	switch {
	case c.name == "examples" || c.name == "demote":
		return r.number(c)
	case !slices.Contains(known, c.name) && !(c.relative && c.name == BrierScore && !slices.Contains(known, MAE)):
		return fmt.Errorf("there is no such measure here%s; there are %s", spell.DidYouMean(c.name, known), strings.Join(known, ", "))
	case !c.relative:
		r.Limits = append(r.Limits, Limit{c.name, c.least, c.value})
	case c.name == accuracy && !c.least:
		return errors.New("want accuracy >= champion")
	case c.name == accuracy:
		r.Measure, r.Margin = Error, -c.value
	case c.name != BrierScore && c.name != Error && c.name != MAE:
		return errors.New("it cannot be compared, as brier, error, accuracy and mae can")
	case c.least:
		return fmt.Errorf("less is better: want %s <= champion", c.name)
	default:
		r.Measure, r.Margin = c.name, c.value
	}
	return nil
}

// number applies a clause about examples or demote.
func (r *Rule) number(c clause) error {
	switch v := c.value; {
	case c.relative || !c.least:
		return fmt.Errorf("want %s >= NUMBER", c.name)
	case c.name == "demote" && v <= 0:
		return errors.New("want a number larger than 0")
	case c.name == "demote":
		r.Demote = v
	case v != float64(int(v)) || v < leastExamples || v > mostExamples:
		return fmt.Errorf("want a whole number from %d to %d", leastExamples, mostExamples)
	default:
		r.Examples = int(v)
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
