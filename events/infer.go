package events

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
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
	most        = 0.99 // a field has a type if at least this share of its values has it
	distinctIDs = 0.95 // texts are ids if more than this share of them is distinct
	leastIDs    = 1000 // this many integers, all distinct, are ids
	leastRun    = 100  // or this many consecutive ones
	wordsEach   = 4    // a text has at least this many words on average, otherwise it is a category
	defaultMax  = 64   // at most this many categories get their own features
	defaultMin  = 5    // if they occur at least this often
	leastHash   = 1 << 6
	mostHash    = 1 << 8 // each feature costs a kernel a dimension
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

// Infer returns the schema of events. It depends on the set of events and on the
// specification, not on the order of the events or of their fields. It is an error if
// there are more than MaxFields fields, or if they give no feature.
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
	for _, e := range events {
		for i := range e {
			n := &e[i]
			if n.Name == spec.Label || n.Name == spec.ID || n.Name == spec.Weight {
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
			c.add(n)
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
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		c, f := columns[name], spec.Features[name]
		f.Name = name
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

// center decides which numbers are centered. Those with heavy tails are not: learners take their
// logarithms, from 0 on.
func (s *Schema) center() {
	for i := range s.Fields {
		f := &s.Fields[i]
		mean, deviation := 0.0, 0.0
		for k, m := range f.Means {
			mean += m * m
			deviation += f.deviations[k] * f.deviations[k]
		}
		f.Centered = f.Type != Boolean && mean > deviation
	}
	_ = s.place() // once more, with the same features
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
	words   int
	times   int // texts that are times
	decimal int // texts that are numbers
	zeros   int // of these, those with a zero before other digits: codes
	truths  int // texts that are true or false
	lists   [][]Cell
	all     []Cell
}

func (c *column) add(n *NamedCell) {
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
		c.words += len(strings.Fields(text))
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
	c.all = append(c.all, n.Cell)
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

// number chooses the type of a column of numbers. Whole numbers are categories if the name
// of the field says that they are names.
func (c *column) number(f *Field) {
	f.Type = Numeric
	sorted := slices.Sorted(slices.Values(c.numbers))
	whole, distinct := true, true
	for i, v := range sorted {
		whole = whole && v == math.Trunc(v)
		distinct = distinct && (i == 0 || v != sorted[i-1])
	}
	n, first, last := len(sorted), sorted[0], sorted[len(sorted)-1]
	var never []string
	unit, timed := "", timeName(f.Name) && f.Unit == "" && f.Comma == ""
	if whole && timed {
		first, never = firstTime(sorted)
		unit = timeUnit(f.Name, first, last)
	}
	switch {
	case whole && distinct && (n >= leastIDs || n >= leastRun && last-first == float64(n-1)) && !timed:
		f.Type, f.Note = Ignore, "it looks like an id: whole numbers that are all different"
	case unit != "":
		f.Type, f.Unit, f.Nulls = Timestamp, unit, never
	case whole && (codeName(f.Name) || 100*c.zeros >= n):
		c.texts = map[string]int{}
		for i := range c.all {
			text, _ := c.all[i].category(nil)
			c.texts[string(text)]++
		}
		c.category(f, c.n)
	default:
		f.Nulls = c.farOff(f)
	}
}

// CodeOrTime reports whether v, in a field with this name, is the name of a thing or a time.
func CodeOrTime(name string, v float64) bool {
	return v == math.Trunc(v) && (codeName(name) || timeUnit(name, v, v) != "")
}

// codeName reports whether whole numbers in a field with this name are names of things: id,
// shop_id, shopId, zip, zip_code.
func codeName(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	word := name[strings.LastIndexAny(name, "_-")+1:]
	if lower := strings.LastIndexFunc(word, unicode.IsLower); lower < len(word)-1 {
		word = word[lower+1:] // ID, shopID
	} else if upper := strings.LastIndexFunc(word, unicode.IsUpper); upper > 0 {
		word = word[upper:] // shopId
	}
	return slices.Contains([]string{"id", "code", "zip", "zipcode", "postcode"}, strings.ToLower(word))
}

// text chooses the type of a column of texts.
func (c *column) text(f *Field) {
	if n := c.kinds[Text]; c.words >= wordsEach*n && 2*len(c.texts) > n {
		f.Type = HashedText
		return
	}
	if !c.split(f) {
		c.category(f, c.kinds[Text])
	}
}

// Texts are lists of categories if there are separators in at least this share of them, and at
// most half as many different items as different texts, of which those that recur, and are no
// numbers, are at least this share of all.
const (
	splitShare = 0.2
	splitCover = 0.8
)

// split reports whether the texts are lists with a separator, and sets it.
func (c *column) split(f *Field) bool {
	for _, sep := range []string{"|", ";", ","} {
		items, several, all, covered := map[string]int{}, 0, 0, 0
		for text, k := range c.texts {
			if strings.Contains(text, sep) {
				several += k
			}
			for item := range strings.SplitSeq(text, sep) {
				if item = strings.TrimSpace(item); item != "" {
					items[item] += k
					all += k
				}
			}
		}
		for item, k := range items {
			if _, number := decimal([]byte(item)); k >= defaultMin && !number {
				covered += k
			}
		}
		if float64(several) >= splitShare*float64(c.n) && 2*len(items) <= len(c.texts) && float64(covered) >= splitCover*float64(all) {
			c.texts = items
			f.Type, f.Split, f.Note = Tags, sep, "its texts are lists"
			c.tags(f, all)
			return true
		}
	}
	return false
}

// tags chooses how many features the names in lists are hashed into, if they are many.
func (c *column) tags(f *Field, n int) {
	if c.hashes(n) > 0 {
		f.Hash = rareHash // with several names in each list, collisions cost more
	}
}

// category decides whether n names are ids, and otherwise chooses features for them.
func (c *column) category(f *Field, n int) {
	f.Type = Ignore
	distinct := len(c.texts)
	switch {
	case float64(distinct) > distinctIDs*float64(n) && n >= 20 && !c.part(f, n):
		f.Note = fmt.Sprintf("it looks like an id: %d different values in %d", distinct, n)
	default:
		f.Type, f.Hash = Categorical, c.hashes(n)
	}
}

// hashes returns the number of features into which the n names are hashed; 0 is none.
func (c *column) hashes(n int) int {
	frequent, covered := c.frequent(defaultMin), 0
	for _, text := range frequent {
		covered += c.texts[text]
	}
	switch distinct := len(c.texts); {
	case distinct > rareDistinct && 2*covered < n:
		return rareHash
	case len(frequent) > defaultMax:
		return hashFor(distinct)
	}
	return 0
}

// Where names are nearly all different, a part of them that recurs may be a category.
const (
	separators = "/:.-_# "
	partsCover = 0.8  // at least this share of the names has a part that recurs
	partsMost  = 0.95 // and no part has more than this share
	partDigits = 6    // a part with as many digits is a number or a date
)

// part looks for the part of the names that recurs: the domain of an address, what is before a
// separator, or what is behind one. If there is one, it sets Before or After, and c.texts to the
// parts.
func (c *column) part(f *Field, n int) bool {
	try := []Field{{After: "@"}}
	for _, sep := range separators {
		try = append(try, Field{Before: string(sep)})
	}
	for _, sep := range separators {
		try = append(try, Field{After: string(sep)})
	}
	for _, g := range try {
		parts, covered, most := map[string]int{}, 0, 0
		for text, k := range c.texts {
			if strings.Contains(text, g.Before+g.After) {
				parts[string(g.part([]byte(text)))] += k
			}
		}
		for part, k := range parts {
			if k >= defaultMin && (len(part) < partDigits || strings.Trim(part, "0123456789") != "") {
				covered, most = covered+k, max(most, k)
			}
		}
		if float64(covered) >= partsCover*float64(n) && float64(most) <= partsMost*float64(n) {
			f.Before, f.After, c.texts = g.Before, g.After, parts
			return true
		}
	}
	return false
}

// hashFor returns the number of features into which this many categories are hashed.
func hashFor(distinct int) int {
	n := leastHash
	for n < 8*distinct && n < mostHash {
		n *= 2
	}
	return n
}

// list chooses the type of a column of lists.
func (c *column) list(f *Field) {
	numbers, texts, decimals, objects, names, all := 0, 0, 0, 0, 0, 0
	c.texts = map[string]int{}
	for _, l := range c.lists {
		for i := range l {
			if text, ok := l[i].category(nil); ok {
				c.texts[string(text)]++
			}
			switch l[i].Kind {
			case Number, Bool:
				numbers++
				if l[i].Num == math.Trunc(l[i].Num) {
					names++
				}
			case Other:
				objects++
			case Text:
				if _, ok := decimal(l[i].Text); ok {
					decimals++
				}
				texts++
			case Null:
				continue
			}
			all++
		}
	}
	length, one := c.length()
	switch {
	case all == 0:
		f.Note = "its lists are empty"
	case nearly(objects, all):
		f.Type = Length
	case nearly(texts, all) && (!nearly(decimals, all) || !one) || nearly(names, all) && codeName(f.Name):
		if len(c.texts) > rareDistinct && float64(len(c.texts)) > distinctIDs*float64(all) {
			f.Note = fmt.Sprintf("it looks like ids: %d different values in %d", len(c.texts), all)
			break
		}
		f.Type = Tags
		c.tags(f, all)
	case !nearly(numbers+decimals, all):
		f.Note = "its lists hold different things"
	case !one:
		f.Type = Summary
	case length > MaxArray:
		f.Note = fmt.Sprintf("its lists have %d numbers, the limit is %d", length, MaxArray)
	default:
		f.Type = Array
	}
}

// length returns the length that nearly all lists have.
func (c *column) length() (n int, ok bool) {
	lengths := map[int]int{}
	for _, l := range c.lists {
		lengths[len(l)]++
	}
	best := 0
	for _, k := range slices.Sorted(maps.Keys(lengths)) {
		if lengths[k] > best {
			n, best = k, lengths[k]
		}
	}
	return n, c.mostly(best)
}

// frequent returns the texts that occur at least this often, sorted.
func (c *column) frequent(least int) []string {
	var list []string
	for text, n := range c.texts {
		if n >= least && utf8.ValidString(text) {
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return list
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

// setMeans sets the means and the deviations of numbers. It sorts each of lists before it sums,
// so that their order does not matter.
func (f *Field) setMeans(lists ...[]float64) {
	f.Means, f.deviations = make([]float64, len(lists)), make([]float64, len(lists))
	for k, vs := range lists {
		slices.Sort(vs)
		sum, squares, n := 0.0, 0.0, float64(max(len(vs), 1))
		for _, v := range vs {
			sum += v
		}
		for _, v := range vs {
			squares += (v - sum/n) * (v - sum/n)
		}
		f.Means[k], f.deviations[k] = float64(float32(sum/n)), math.Sqrt(squares/n)
	}
}

// quantiles sets Range, Quantiles and Reference from sorted numbers.
func (f *Field) quantiles(vs []float64) {
	if len(vs) == 0 {
		return
	}
	f.Range = []float64{vs[0], vs[len(vs)-1]}
	for k := 1; k < 10; k++ {
		if q := vs[k*len(vs)/10]; q < f.Range[1] && (len(f.Quantiles) == 0 || q > f.Quantiles[len(f.Quantiles)-1]) {
			f.Quantiles = append(f.Quantiles, q)
		}
	}
	below := 0
	for _, q := range f.Quantiles {
		n, _ := slices.BinarySearch(vs, math.Nextafter(q, math.Inf(1)))
		f.Reference = append(f.Reference, share(n-below, len(vs)))
		below = n
	}
	f.Reference = append(f.Reference, share(len(vs)-below, len(vs)))
}

func share(n, of int) float64 { return math.Round(1e4*float64(n)/float64(of)) / 1e4 }

func (c *column) array(f *Field, events int) {
	length, _ := c.length()
	length = min(length, MaxArray)
	vs := make([][]float64, length)
	f.MissingIndicator = make([]bool, length)
	for k := range length {
		for _, l := range c.lists {
			if len(l) != length {
				continue
			}
			if v, err := number(f, &l[k]); err == nil {
				vs[k] = append(vs[k], v)
			}
		}
		f.MissingIndicator[k] = len(vs[k]) < events
	}
	f.setMeans(vs...)
}

func (c *column) summary(f *Field, events int) {
	vs := make([][]float64, 4)
	if f.Type == Length {
		vs = vs[:1]
	}
	for _, l := range c.lists {
		v, ok, err := [4]float64{float64(len(l))}, true, (*FieldError)(nil)
		if f.Type == Summary {
			v, ok, err = summarize(f, l)
		}
		for k := range vs {
			if ok && err == nil {
				vs[k] = append(vs[k], v[k])
			}
		}
	}
	f.setMeans(vs...)
	f.MissingIndicator = []bool{len(vs[0]) < events}
}

func (c *column) categories(f *Field, missing int) {
	f.MissingIndicator = []bool{missing > 0 && f.Type == Categorical}
	if f.Hash > 0 {
		return
	}
	count := map[string]int{}
	for i := range c.all {
		text, ok := c.all[i].category(nil)
		switch {
		case ok && f.Type == Tags:
			for item := range strings.SplitSeq(string(text), f.Split) {
				if item = strings.TrimSpace(item); item != "" {
					count[item]++
				}
			}
		case ok:
			count[string(f.part(text))]++
		}
	}
	for _, l := range c.lists {
		for i := range l {
			if text, ok := l[i].category(nil); ok && l[i].Kind > Null {
				count[string(text)]++
			}
		}
	}
	least := min(cmp.Or(f.MinCount, defaultMin), max(1, c.n/100))
	if f.MinCount > 0 {
		least = f.MinCount
	}
	type named struct {
		text string
		n    int
	}
	var list []named
	for text, n := range count {
		if n >= least && utf8.ValidString(text) {
			list = append(list, named{text, n})
		}
	}
	slices.SortFunc(list, func(a, b named) int { return cmp.Or(b.n-a.n, strings.Compare(a.text, b.text)) })
	list = list[:min(len(list), cmp.Or(f.Max, defaultMax))]
	slices.SortFunc(list, func(a, b named) int { return strings.Compare(a.text, b.text) })
	rest := c.n
	for _, k := range list {
		f.Categories = append(f.Categories, k.text)
		f.Reference = append(f.Reference, share(k.n, c.n))
		rest -= k.n
	}
	if f.Type == Tags {
		f.Reference = nil
		return
	}
	f.Reference = append(f.Reference, share(max(rest, 0), max(c.n, 1)))
}
