package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Type is how a field is encoded.
type Type string

// The types of fields.
const (
	Ignore      Type = "ignore"
	Numeric     Type = "numeric"     // a feature: the number
	Boolean     Type = "boolean"     // a feature: 0 or 1
	Categorical Type = "categorical" // a feature for each category, or hashed
	Tags        Type = "tags"        // a list of categories
	Timestamp   Type = "time"        // its age, sine and cosine of other parts
	HashedText  Type = "text"        // its words, hashed
	Array       Type = "array"       // as many numeric features as there are items
	Summary     Type = "summary"     // of a list of numbers: sum, mean, smallest and largest
	Length      Type = "length"      // of a list: the number of its items
)

// Types lists the types.
func Types() []Type {
	return []Type{Ignore, Numeric, Boolean, Categorical, Tags, Timestamp, HashedText, Array, Summary, Length}
}

// Policies for a missing value, an unknown category, and an invalid value, which has
// another type or is not finite.
const (
	Indicator     = "indicator" // missing: the mean, and a feature that marks it
	Mean          = "mean"      // missing: the mean alone
	Refuse        = "refuse"    // the event is refused
	OtherCategory = "other"     // unknown: the feature of rare and unknown categories
	Zero          = "zero"      // unknown: nothing
	AsMissing     = "missing"   // invalid: as if it were missing
)

// A Field describes how a field of an event is encoded. Categories and the fields after
// it are inferred from the first events.
type Field struct {
	Name string `json:"name" yaml:"-"`
	Type Type   `json:"type" yaml:"type"`
	// Nulls are values of a number or a time that stand for none, as texts: "N/A", "-999".
	Nulls []string `json:"nulls,omitempty" yaml:"nulls,omitempty,flow"`
	// Transform of a number v: "", or "log1p", which is ln(1+|v|) with the sign of v.
	Transform string `json:"transform,omitempty" yaml:"transform,omitempty"`
	// Before and After, of a category: it is the part of a text behind the last After, and of
	// that the part before the first Before.
	Before string `json:"before,omitempty" yaml:"before,omitempty"`
	After  string `json:"after,omitempty" yaml:"after,omitempty"`
	// Split, of tags or an array, is what separates the items of a list in a text.
	Split string `json:"split,omitempty" yaml:"split,omitempty"`
	// Clip, if not empty, holds the bounds of a number, before Transform.
	Clip []float64 `json:"clip,omitempty" yaml:"clip,omitempty,flow"`
	// Max is the largest number of categories that have their own features,
	// MinCount the least number of occurrences of such a category.
	Max      int `json:"max,omitempty" yaml:"max,omitempty"`
	MinCount int `json:"min_count,omitempty" yaml:"min-count,omitempty"`
	// Hash, if positive, is the number of features that categories or words are
	// hashed into.
	Hash int `json:"hash,omitempty" yaml:"hash,omitempty"`
	// Unit of a time that is a number: "s", "ms", also the default, "us", "ns", "d", all since
	// 1970, or "yyyymmdd". Of a number in a text: what may be before or behind it, such as "$".
	Unit string `json:"unit,omitempty" yaml:"unit,omitempty"`
	// Comma says what a comma in a number in a text is: Thousands, DecimalComma, or, if it is
	// empty, an error.
	Comma string `json:"comma,omitempty" yaml:"comma,omitempty"`
	// Order is that of day and month in times with the year last: DayFirst, MonthFirst. If it
	// is empty, such times are errors.
	Order string `json:"order,omitempty" yaml:"order,omitempty"`
	// Parts are the parts of a time that become features: "hour", "weekday", "age". The age is
	// in days, up to the time in the field Until, or up to 2000-01-01 if Until is empty.
	Parts []string `json:"parts,omitempty" yaml:"parts,omitempty,flow"`
	Until string   `json:"until,omitempty" yaml:"until,omitempty"`
	// Missing, Unknown and Invalid, if not empty, override the policies of the schema.
	Missing string `json:"missing,omitempty" yaml:"missing,omitempty"`
	Unknown string `json:"unknown,omitempty" yaml:"unknown,omitempty"`
	Invalid string `json:"invalid,omitempty" yaml:"invalid,omitempty"`

	// Categories are those with their own features, in order.
	Categories []string `json:"categories,omitempty" yaml:"categories,omitempty,flow"`
	// Means of a number, of each item of an array, of an age, of a length, or of a summary
	// replace missing values.
	Means []float64 `json:"means,omitempty" yaml:"means,omitempty,flow"`
	// Centered says that numbers are encoded less their means, as they are in sparse vectors,
	// which learners cannot center, where they are far from 0 compared with their deviation.
	Centered bool `json:"centered,omitempty" yaml:"-"`
	// MissingIndicator says for each of Means whether there is a feature that is set if
	// the value is missing; for a category, a time or a summary it has one element.
	MissingIndicator []bool `json:"gaps,omitempty" yaml:"gaps,omitempty,flow"`
	// Range is the smallest and the largest number.
	Range []float64 `json:"range,omitempty" yaml:"range,omitempty,flow"`
	// Quantiles divide the numbers into up to ten bins of about the same size.
	Quantiles []float64 `json:"quantiles,omitempty" yaml:"quantiles,omitempty,flow"`
	// Reference is the histogram that later values are compared with: the share of the
	// first events in each bin, or in each category and in all others.
	Reference []float64 `json:"shares,omitempty" yaml:"shares,omitempty,flow"`
	// Note says why the type was chosen, if that is not obvious.
	Note string `json:"-" yaml:"-"`

	at         int            // first feature
	deviations []float64      // of the numbers with Means, in the first events
	until      int            // index of Until
	nulls      []float64      // Nulls that are numbers
	categories map[string]int // index into Categories; nil if there are few
}

// Schema describes how the fields of events are encoded.
type Schema struct {
	// Root, if not empty, is the path of the object with the fields, such as payload.after
	// for Debezium. Events without that object have the fields at the top level.
	Root string `json:"root,omitempty" yaml:"root,omitempty"`
	// Label, ID and Weight are the fields with the label, the id and the importance
	// weight of the example; empty is none.
	Label  string `json:"label" yaml:"label,omitempty"`
	ID     string `json:"id,omitempty" yaml:"id,omitempty"`
	Weight string `json:"weight,omitempty" yaml:"weight,omitempty"`
	// Unlisted is the policy for fields that are not listed: Ignore, also the default,
	// or Refuse.
	Unlisted string `json:"others,omitempty" yaml:"others,omitempty"`
	// Missing (default Indicator), Unknown (OtherCategory) and Invalid (Refuse) are the
	// policies for such values.
	Missing string `json:"missing,omitempty" yaml:"missing,omitempty"`
	Unknown string `json:"unknown,omitempty" yaml:"unknown,omitempty"`
	Invalid string `json:"invalid,omitempty" yaml:"invalid,omitempty"`
	// Fields are sorted by name.
	Fields []Field `json:"fields" yaml:"-"`

	dim   int
	steps []step // of the fields that are used
}

// Limits of schemas.
const (
	MaxFields = 4096
	// MaxDepth is the number of levels of nested objects that are read.
	MaxDepth = 4
	// MaxArray is the length of the longest list.
	MaxArray = 8192
	// DenseLimit is the largest number of features of a dense vector.
	DenseLimit = 512
	maxHash    = 1 << 20
)

// Parse reads the output of String. It refuses any other text, and exceeded limits.
func Parse(text string) (*Schema, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	s := new(Schema)
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("schema of events: %w", err)
	}
	if dec.More() {
		return nil, errors.New("schema of events: there is more than one")
	}
	if err := s.place(); err != nil {
		return nil, fmt.Errorf("schema of events: %w", err)
	}
	return s, nil
}

// String returns the schema as JSON, the same text for the same schema.
func (s *Schema) String() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // all numbers have been checked to be finite
		panic(err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// Dim returns the number of features.
func (s *Schema) Dim() int { return s.dim }

// Features returns a name for each feature: amount, country=DE, country=other,
// amount missing, created hour sin.
func (s *Schema) Features() []string {
	names := make([]string, 0, s.dim)
	for i := range s.Fields {
		names = s.Fields[i].features(names)
	}
	return names
}

// Range returns the features of Fields[i]: from, up to but not including to, and the means of
// the first ones.
func (s *Schema) Range(i int) (from, to int, means []float64) {
	f := &s.Fields[i]
	if means = f.Means; f.Centered {
		means = make([]float64, len(means))
	}
	return f.at, f.at + f.width(), means
}

// Scaled reports for each feature whether its scale has a meaning, so that it must not be
// scaled. Only for numbers it has none.
func (s *Schema) Scaled() []bool {
	scaled := make([]bool, s.dim)
	for i := range s.Fields {
		f := &s.Fields[i]
		for j := f.at; j < f.at+f.width(); j++ {
			scaled[j] = true
		}
		if f.Type != Boolean {
			for j := range f.Means {
				scaled[f.at+j] = false
			}
		}
	}
	return scaled
}

func (f *Field) features(names []string) []string {
	missing := func(name string, k int) {
		if k < len(f.MissingIndicator) && f.MissingIndicator[k] {
			names = append(names, name+" missing")
		}
	}
	switch f.Type {
	case Numeric, Boolean:
		names = append(names, f.Name)
		missing(f.Name, 0)
	case Length:
		names = append(names, f.Name+" length")
		missing(f.Name, 0)
	case Summary:
		names = append(names, f.Name+" sum", f.Name+" mean", f.Name+" min", f.Name+" max")
		missing(f.Name, 0)
	case Array:
		for k := range f.Means {
			names = append(names, fmt.Sprintf("%s[%d]", f.Name, k))
		}
		for k := range f.Means {
			missing(fmt.Sprintf("%s[%d]", f.Name, k), k)
		}
	case Categorical, Tags:
		if f.Hash > 0 {
			for k := range f.Hash {
				names = append(names, fmt.Sprintf("%s#%d", f.Name, k))
			}
		} else {
			for _, c := range f.Categories {
				names = append(names, f.Name+"="+c)
			}
			names = append(names, f.Name+" other")
		}
		missing(f.Name, 0)
	case Timestamp:
		if f.aged() {
			names = append(names, f.Name+" "+agePart)
		}
		for _, p := range f.Parts {
			if p != agePart {
				names = append(names, f.Name+" "+p+" sin", f.Name+" "+p+" cos")
			}
		}
		missing(f.Name, 0)
	case HashedText:
		for k := range f.Hash {
			names = append(names, fmt.Sprintf("%s#%d", f.Name, k))
		}
	}
	return names
}

// width returns the number of features.
func (f *Field) width() int {
	indicators := 0
	for _, g := range f.MissingIndicator {
		if g {
			indicators++
		}
	}
	switch f.Type {
	case Numeric, Boolean, Length:
		return 1 + indicators
	case Array, Summary:
		return len(f.Means) + indicators
	case Categorical, Tags:
		if f.Hash > 0 {
			return f.Hash + indicators
		}
		return len(f.Categories) + 1 + indicators
	case Timestamp:
		if f.aged() {
			indicators--
		}
		return 2*len(f.Parts) + indicators
	case HashedText:
		return f.Hash
	}
	return 0
}

// place checks the schema, which may come from an untrusted source, and assigns features
// to the fields.
func (s *Schema) place() error {
	if len(s.Fields) > MaxFields {
		return fmt.Errorf("%d fields, the limit is %d", len(s.Fields), MaxFields)
	}
	if err := policies(s.Missing, s.Unknown, s.Invalid); err != nil {
		return err
	}
	if !slices.Contains([]string{"", string(Ignore), Refuse}, s.Unlisted) {
		return fmt.Errorf("others: %q is not one of ignore, refuse", s.Unlisted)
	}
	s.dim, s.steps = 0, nil
	at := make(map[string]int, len(s.Fields))
	for i := range s.Fields {
		at[s.Fields[i].Name] = i
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		if i > 0 && f.Name <= s.Fields[i-1].Name {
			return fmt.Errorf("field %q comes after %q", f.Name, s.Fields[i-1].Name)
		}
		if f.Name == s.Label || f.Name == s.ID || f.Name == s.Weight {
			return fmt.Errorf("field %q is the label, the id or the weight", f.Name)
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
		if err := f.learned(); err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
		if f.Until != "" {
			var ok bool
			if f.until, ok = at[f.Until]; !ok || f.until == i || s.Fields[f.until].Type != Timestamp {
				return fmt.Errorf("field %q: until: %q is not another field of type time", f.Name, f.Until)
			}
		}
		f.nulls = f.NullNumbers()
		f.at = s.dim
		if s.dim += f.width(); s.dim > math.MaxInt32 {
			return errors.New("too many features")
		}
		if len(f.Categories) > 8 { // below that comparing is faster
			f.categories = make(map[string]int, len(f.Categories))
			for k, c := range f.Categories {
				f.categories[c] = k
			}
		}
		if f.Type != Ignore {
			st := f.step(i)
			if f.Centered && st.way == asNumber {
				st.center = f.Means[0]
			}
			s.steps = append(s.steps, st)
		}
	}
	return nil
}

func policies(missing, unknown, invalid string) error {
	for _, p := range []struct {
		name, value string
		of          []string
	}{
		{"missing", missing, []string{Indicator, Mean, Refuse}},
		{"unknown", unknown, []string{OtherCategory, Zero, Refuse}},
		{"invalid", invalid, []string{Refuse, AsMissing}},
	} {
		if p.value != "" && !slices.Contains(p.of, p.value) {
			return fmt.Errorf("%s: %q is not one of %s", p.name, p.value, strings.Join(p.of, ", "))
		}
	}
	return nil
}

// check validates the settings that users can make.
func (f *Field) check() error {
	if f.Name == "" {
		return errors.New("it has no name")
	}
	if !slices.Contains(Types(), f.Type) {
		return fmt.Errorf("the type %q is not one of %v", f.Type, Types())
	}
	of := func(given bool, what string, types ...Type) error {
		if given && !slices.Contains(types, f.Type) {
			return fmt.Errorf("%s is not for a field of type %s", what, f.Type)
		}
		return nil
	}
	err := errors.Join(
		of(f.Nulls != nil, "nulls", Numeric, Timestamp, Array),
		of(f.Transform != "", "transform", Numeric, Array, Summary),
		of(f.Clip != nil, "clip", Numeric, Array, Summary),
		of(f.Split != "", "split", Tags, Array), of(f.Before != "", "before", Categorical), of(f.After != "", "after", Categorical),
		of(f.Max != 0, "max", Categorical, Tags), of(f.MinCount != 0, "min-count", Categorical, Tags),
		of(f.Hash != 0, "hash", Categorical, Tags, HashedText),
		of(f.Unit != "", "unit", Timestamp, Numeric), of(f.Comma != "", "comma", Numeric),
		of(f.Parts != nil, "parts", Timestamp), of(f.Order != "", "order", Timestamp), of(f.Until != "", "until", Timestamp),
		of(f.Unknown != "", "unknown", Categorical, Tags),
		policies(f.Missing, f.Unknown, f.Invalid),
	)
	switch {
	case err != nil:
		return err
	case f.Transform != "" && f.Transform != "log1p":
		return fmt.Errorf("transform: %q is not log1p", f.Transform)
	case f.Clip != nil && (len(f.Clip) != 2 || !(f.Clip[0] < f.Clip[1]) || !finite(f.Clip...)):
		return fmt.Errorf("clip: %v are not two numbers, the smaller first", f.Clip)
	case f.Max < 0 || f.MinCount < 0:
		return errors.New("max and min-count are positive")
	case f.Hash < 0 || f.Hash > maxHash:
		return fmt.Errorf("hash: %d is not in 1 to %d", f.Hash, maxHash)
	case f.Type == Timestamp && units[f.Unit] == 0 && f.Unit != yyyymmdd:
		return fmt.Errorf("unit: %q of a time is not one of s, ms, us, ns, d, yyyymmdd", f.Unit)
	case f.Type == Numeric && (len(f.Unit) > longestUnit || strings.ContainsAny(f.Unit, "0123456789") || f.Unit != strings.TrimSpace(f.Unit)):
		return fmt.Errorf("unit: %q of a number has more than %d bytes, digits, or space around it", f.Unit, longestUnit)
	case f.Comma != "" && grouped[f.Comma] == nil:
		return fmt.Errorf("comma: %q is neither thousands nor decimal", f.Comma)
	case f.Order != "" && f.Order != DayFirst && f.Order != MonthFirst:
		return fmt.Errorf("order: %q is neither dmy nor mdy", f.Order)
	case f.Centered && f.Type == Boolean:
		return errors.New("a boolean is not centered")
	case f.Until != "" && !f.aged():
		return errors.New("until: it is for the part age")
	}
	for i, p := range f.Parts {
		if p != hourPart && p != weekdayPart && p != agePart || slices.Contains(f.Parts[:i], p) {
			return fmt.Errorf("parts: %q is not one of hour, weekday, age, each once", p)
		}
	}
	return nil
}

// learned validates the inferred settings.
func (f *Field) learned() error {
	means := 0
	switch f.Type {
	case Numeric, Boolean, Length:
		means = 1
	case Summary:
		means = 4
	case Array:
		means = len(f.Means)
	case Timestamp:
		if f.aged() {
			means = 1
		}
	}
	indicators := 1
	switch {
	case f.Type == Ignore || f.Type == HashedText:
		indicators = 0
	case f.Type == Array:
		indicators = max(means, 1)
	case f.Type == Timestamp && len(f.Parts) == 0:
		return errors.New("it has no parts")
	}
	switch {
	case len(f.Means) != means || means > MaxArray:
		return fmt.Errorf("%d means", len(f.Means))
	case len(f.MissingIndicator) != indicators:
		return fmt.Errorf("%d missing indicators, want %d", len(f.MissingIndicator), indicators)
	case f.Type == HashedText && f.Hash == 0:
		return errors.New("it has no hash")
	case !finite(f.Means...) || !finite(f.Range...) || !finite(f.Quantiles...) || !finite(f.Reference...):
		return errors.New("a number is not finite")
	case len(f.Range) != 0 && len(f.Range) != 2:
		return fmt.Errorf("a range of %d numbers", len(f.Range))
	case !slices.IsSorted(f.Quantiles):
		return errors.New("the quantiles do not increase")
	case len(f.Categories) > 1<<20:
		return fmt.Errorf("%d categories", len(f.Categories))
	}
	for i, c := range f.Categories {
		if i > 0 && c <= f.Categories[i-1] {
			return fmt.Errorf("category %q comes after %q", c, f.Categories[i-1])
		}
	}
	return nil
}

func finite(vs ...float64) bool {
	for _, v := range vs {
		if v-v != 0 {
			return false
		}
	}
	return true
}
