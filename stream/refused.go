package stream

import "fmt"

// DeadError says that a stream cannot be what it is configured to be: too many of
// its records cannot be used.
type DeadError struct {
	// Dead of the latest Records could not be used, Alike of them for the same
	// reason as Example. That is the most frequent reason; Example is nil if none
	// is known.
	Dead, Records int
	Alike         int
	Example       *RecordError
}

func (e *DeadError) Error() string {
	s := fmt.Sprintf("%d of the last %d records cannot be used", e.Dead, e.Records)
	switch {
	case e.Dead == e.Records:
		s = fmt.Sprintf("none of the last %d records can be used", e.Records)
	case e.Dead == 1:
		s = fmt.Sprintf("1 of the last %d records cannot be used", e.Records)
	}
	switch {
	case e.Alike == 1:
		s += fmt.Sprintf(", such as %v", e.Example)
	case e.Alike > 1:
		s += fmt.Sprintf(", most often (%d times) as in %v", e.Alike, e.Example)
	}
	return s
}

// OneLabelError says that there is nothing to learn because all labels are equal.
type OneLabelError struct {
	// Examples is the number of examples, Labelled the number with a label, which
	// was always Label.
	Examples, Labelled uint64
	Label              float64
	// Regress: labels are numbers to predict, not one of −1 and +1.
	Regress bool
	// Class is the name of the label if there are more than two classes.
	Class string
}

// Seen describes the examples so far.
func (e *OneLabelError) Seen() string {
	switch {
	case e.Labelled == 0:
		return fmt.Sprintf("no label seen in %s", e.examples())
	case e.Regress:
		return fmt.Sprintf("only the target %v seen in %s", e.Label, e.examples())
	}
	if e.Class != "" {
		return fmt.Sprintf("only label %s seen in %s", e.Class, e.examples())
	}
	return fmt.Sprintf("only label %+g seen in %s", e.Label, e.examples())
}

func (e *OneLabelError) examples() string {
	if e.Examples == 1 {
		return "1 example"
	}
	return fmt.Sprintf("%d examples", e.Examples)
}

func (e *OneLabelError) Error() string {
	switch {
	case e.Labelled == 0:
		return fmt.Sprintf("there is no model: none of %s has a label", e.examples())
	case e.Regress:
		return fmt.Sprintf("there is no model: the only target seen is %v, %s", e.Label, times(e.Labelled))
	}
	if e.Class != "" {
		return fmt.Sprintf("there is no model: the only label seen is %s, %s", e.Class, times(e.Labelled))
	}
	return fmt.Sprintf("there is no model: label %+g was seen %s, label %+g never", e.Label, times(e.Labelled), -e.Label)
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
