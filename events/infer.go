package events

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Spec is the prior knowledge about events. With the zero value everything is
// inferred.
type Spec struct {
	// Root, Label, ID and Weight are as in Schema.
	Root   string `yaml:"root"`
	Label  string `yaml:"label"`
	ID     string `yaml:"id"`
	Weight string `yaml:"weight"`
	// Features are the fields to use. The type of a field is inferred if it is
	// empty.
	Features map[string]Field `yaml:"features"`
	// Unlisted is the policy for all other fields: Auto (infer them), Ignore or
	// Refuse. The default is Auto without Features, and Ignore with them.
	Unlisted string `yaml:"others"`
	// Missing, Unknown and Invalid are as in Schema.
	Missing string `yaml:"missing"`
	Unknown string `yaml:"unknown"`
	Invalid string `yaml:"invalid"`
}

// Auto is a value of Spec.Unlisted.
const Auto = "auto"

// A NamedCell is a field of an event that was read without a schema. It shares no memory
// with the record.
type NamedCell struct {
	Name  string
	Cell  Cell
	Items []Cell // of a list; From and To are not used
}

// Constants of the inference.
const (
	most        = 0.99   // a field has a type if at least this share of its values has it
	distinctIDs = 0.95   // texts are ids if more than this share of them is distinct
	leastIDs    = 1000   // this many integers, all distinct, are ids
	leastRun    = 100    // or this many consecutive ones
	wordsEach   = 4      // a text has at least this many words on average, or half of its words are
	wordTexts   = 5      // in this many different texts; otherwise it is a category
	defaultMax  = 64     // at most this many categories get their own features
	defaultMin  = 5      // if they occur at least this often
	manyHash    = 1 << 8 // for more categories; each feature costs a kernel a dimension
	textHash    = 1 << 10
	// For merchants, for example: more categories than this, and most events in categories
	// too rare for their own features. Collisions would cost more than sparse vectors do.
	rareDistinct = 256
	rareHash     = 1 << 14
)

// Check returns an error if a specification is invalid.
func (s *Spec) Check() error {
	if !slices.Contains([]string{"", Auto, string(Ignore), Refuse}, s.Unlisted) {
		return fmt.Errorf("others: %q is not one of auto, ignore, refuse", s.Unlisted)
	}
	if err := policies(s.Missing, s.Unknown, s.Invalid); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Features)) {
		f := s.Features[name]
		f.Name = name
		if f.Type == "" {
			continue
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("features: %s: %w", name, err)
		}
	}
	return nil
}

// Infer returns the schema of events. It depends on the set of events and on the specification.
// Of the order of the events, only whether whole numbers are names or ids depends. It is an error
// if there are more than MaxFields fields, or if they give no feature.
func Infer(events [][]NamedCell, spec Spec) (*Schema, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	others := spec.Unlisted
	if others == "" {
		others = Auto
		if len(spec.Features) > 0 {
			others = string(Ignore)
		}
	}
	s := &Schema{Root: spec.Root, Label: spec.Label, ID: spec.ID, Weight: spec.Weight, Missing: spec.Missing, Unknown: spec.Unknown, Invalid: spec.Invalid}
	if others == Refuse {
		s.Unlisted = Refuse
	}
	columns := map[string]*column{}
	for k, e := range events {
		for i := range e {
			n := &e[i]
			if n.Name == spec.Label || n.Name == spec.ID || n.Name == spec.Weight || !utf8.ValidString(n.Name) {
				continue
			}
			if _, listed := spec.Features[n.Name]; !listed && others != Auto {
				continue
			}
			c := columns[n.Name]
			if c == nil {
				c = new(column)
				columns[n.Name] = c
			}
			c.add(k, n)
		}
	}
	for name := range spec.Features {
		if columns[name] == nil {
			columns[name] = new(column)
		}
	}
	if len(columns) > MaxFields {
		return nil, fmt.Errorf("the events have %d fields, the limit is %d: say under features which are to be used", len(columns), MaxFields)
	}
	labels := targets(events, spec.Label)
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		c, f := columns[name], spec.Features[name]
		f.Name, c.targets = name, labels
		if f.Type == "" {
			c.choose(&f)
		}
		f.nulls = f.NullNumbers()
		s.Fields = append(s.Fields, f)
	}
	s.times(events)
	for i := range s.Fields {
		f := &s.Fields[i]
		columns[f.Name].complete(f, len(events))
		if cmp.Or(f.Missing, spec.Missing, Indicator) != Indicator {
			clear(f.MissingIndicator)
		}
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	if s.dim > DenseLimit {
		s.center()
	}
	if s.dim == 0 {
		return nil, errors.New("no field of the events can be made a feature" + s.why())
	}
	return s, nil
}

// why lists the ignored fields and the reasons.
func (s *Schema) why() string {
	var list []string
	for i := range s.Fields {
		if f := &s.Fields[i]; f.Note != "" && len(list) < 8 {
			list = append(list, f.Name+": "+f.Note)
		}
	}
	if list == nil {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}

// column holds the values of one field.
type column struct {
	kinds   [Other + 1]int // number of values of each kind
	n       int            // not null
	numbers []float64      // of numbers and times
	texts   map[string]int // of texts
	times   int            // texts that are times
	decimal int            // texts that are numbers
	zeros   int            // of these, those with a zero before other digits: codes
	truths  int            // texts that are true or false
	lists   [][]Cell
	all     []Cell
	rows    []int       // the event of each of all
	targets [][]float64 // of all events
}

// add adds the value of a field of event k.
func (c *column) add(k int, n *NamedCell) {
	if !n.Cell.finite() {
		return // it says nothing about the field
	}
	c.kinds[n.Cell.Kind]++
	if n.Cell.Kind <= Null {
		return
	}
	c.n++
	switch n.Cell.Kind {
	case Number, Time:
		c.numbers = append(c.numbers, n.Cell.Num)
	case Text:
		if c.texts == nil {
			c.texts = map[string]int{}
		}
		text := string(n.Cell.Text)
		c.texts[text]++
		if _, ok := parseTime(n.Cell.Text, ""); ok {
			c.times++
		}
		if _, ok := decimal(n.Cell.Text); ok {
			c.decimal++
			if len(text) > 1 && text[0] == '0' && text[1] != '.' && strings.Trim(text, "0123456789") == "" {
				c.zeros++
			}
		} else if _, ok := truth(&n.Cell); ok {
			c.truths++
		}
	case List:
		c.lists = append(c.lists, n.Items)
		return
	}
	c.all, c.rows = append(c.all, n.Cell), append(c.rows, k)
}

// mostly reports whether n is nearly all of the values that are not null.
func (c *column) mostly(n int) bool { return nearly(n, c.n) }

// nearly reports whether n is nearly all.
func nearly(n, all int) bool { return float64(n) >= most*float64(all) }

// choose infers the type.
func (c *column) choose(f *Field) {
	f.Type = Ignore
	texts := c.kinds[Text]
	nulls, n := c.nulls()
	others := c.n - n
	switch {
	case c.n == 0:
		f.Note = "it is always null"
	case c.mostly(c.kinds[Bool]):
		f.Type = Boolean
	case c.mostly(c.kinds[Time]):
		f.Type = Timestamp
	case c.numbers != nil && nearly(c.kinds[Number], others):
		if c.number(f); f.Type == Numeric || f.Type == Timestamp {
			f.Nulls = append(nulls, f.Nulls...)
		}
	case c.times > 0 && nearly(c.times, others) || c.order(f, others):
		f.Type, f.Note, f.Nulls = Timestamp, "its texts are times", nulls
	case c.amount(f, others):
		for text, k := range c.texts {
			if v, ok := f.decimal([]byte(text)); ok {
				c.numbers = append(c.numbers, slices.Repeat([]float64{v}, k)...)
			}
		}
		if c.number(f); f.Type == Numeric || f.Type == Timestamp {
			f.Note, f.Nulls = "its texts are numbers", append(nulls, f.Nulls...)
		} else {
			f.Unit, f.Comma = "", ""
		}
	case c.mostly(c.truths):
		f.Type = Boolean
	case c.mostly(texts):
		c.text(f)
	case c.mostly(c.kinds[List]):
		c.list(f)
	case c.kinds[List]+c.kinds[Other] > 0:
		f.Note = "it holds " + Other.String() + " or different things"
	default:
		f.Type, f.Note = Categorical, "its values are of different types"
	}
	slices.Sort(f.Nulls)
}

// text chooses the type of a column of texts.
func (c *column) text(f *Field) {
	long, recur := c.words()
	nulls, none := c.nulls()
	switch {
	case long:
		f.Type = HashedText
	case c.split(f):
	case c.numberLists(f, c.n-none):
		f.Nulls = nulls
	case recur, c.paths():
		f.Type = HashedText
	default:
		c.category(f, c.kinds[Text])
	}
}

// paths reports whether the texts are URLs, or paths, too many for features of their own, and nearly all
// different only if no part recurs. Their parts are words.
func (c *column) paths() bool {
	n, texts := 0, c.texts
	for text, k := range texts {
		if (strings.HasPrefix(text, "/") || strings.Contains(text, "://")) && !strings.ContainsAny(text, " \t\n") {
			n += k
		}
	}
	if !nearly(n, c.kinds[Text]) || len(texts) <= defaultMax {
		return false
	}
	defer func() { c.texts = texts }()
	return float64(len(texts)) <= distinctIDs*float64(n) || !c.part(new(Field), n)
}

// words reports, of texts that are mostly different, whether they are long, and whether words
// recur: then words say more about an event than the whole text does. Long ones may come a few times
// each, as where every change of a row is an event.
func (c *column) words() (long, recur bool) {
	words, in := 0, map[string]int{} // in how many different texts a word is
	for text, n := range c.texts {
		list := strings.Fields(text)
		words += n * len(list)
		for _, word := range list {
			in[word]++
		}
	}
	all, often := 0, 0
	for word, n := range in {
		if all += n; n >= wordTexts && strings.ContainsFunc(word, unicode.IsLetter) {
			often += n
		}
	}
	n := c.kinds[Text]
	return 3*len(c.texts) > n && words >= wordsEach*n, 2*len(c.texts) > n && 2*often >= all
}

// complete infers the settings that f leaves open, from the given number of events.
func (c *column) complete(f *Field, events int) {
	missing := events - c.n
	switch f.Type {
	case Ignore:
		return
	case Numeric, Boolean:
		var vs []float64
		for i := range c.all {
			if f.Type == Boolean {
				if v, ok := truth(&c.all[i]); ok {
					vs = append(vs, float64(v))
				}
			} else if v, err := number(f, &c.all[i]); err == nil && !f.null(&c.all[i]) {
				vs = append(vs, v)
			}
		}
		f.setMeans(vs)
		f.MissingIndicator = []bool{len(vs) < events}
		if f.Type == Numeric {
			f.quantiles(vs)
		}
	case Array:
		c.array(f, events)
	case Summary, Length:
		c.summary(f, events)
	case Categorical, Tags:
		c.categories(f, missing)
	case Timestamp:
		f.MissingIndicator = []bool{missing > 0 || f.Nulls != nil}
	case HashedText:
		f.Hash = cmp.Or(f.Hash, textHash)
	}
}
