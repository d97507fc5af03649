package events

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/stream"
)

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
		return manyHash
	}
	return 0
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

// Where names are nearly all different, a part of them that recurs may be a category.
const (
	separators = "/:.-_# "
	partsCover = 0.8  // at least this share of the names has a part that recurs
	partsMost  = 0.95 // and no part has more than this share
	partDigits = 6    // a part with as many digits is a number or a date
)

// part looks for the part of the names that recurs: the host of a URL, the domain of an address,
// what is before a separator, or what is behind one. If there is one, it sets Before and After,
// and c.texts to the parts.
func (c *column) part(f *Field, n int) bool {
	try := []Field{{After: "://", Before: "/"}, {After: "@"}}
	for _, sep := range separators {
		try = append(try, Field{Before: string(sep)})
	}
	for _, sep := range separators {
		try = append(try, Field{After: string(sep)})
	}
	for _, g := range try {
		parts, covered, most := map[string]int{}, 0, 0
		for text, k := range c.texts {
			if strings.Contains(text, g.After) && strings.Contains(text, g.Before) {
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
			for item := range listed([]byte(text), sep) {
				items[string(item)] += k
				all += k
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

func (c *column) categories(f *Field, missing int) {
	f.MissingIndicator = []bool{missing > 0 && f.Type == Categorical}
	if f.Hash > 0 {
		return
	}
	count := map[string]int{}
	for i := range c.all {
		text, ok := c.all[i].category(nil)
		switch {
		case ok && f.Type == Categorical:
			count[string(f.part(text))]++
		case ok && f.Split != "":
			for item := range listed(text, f.Split) {
				count[string(item)]++
			}
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
	sort.Slice(list, func(i, j int) bool {
		return cmp.Or(list[j].n-list[i].n, strings.Compare(list[i].text, list[j].text)) < 0
	})
	list = list[:min(len(list), cmp.Or(f.Max, defaultMax))]
	sort.Slice(list, func(i, j int) bool { return list[i].text < list[j].text })
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

// category returns the category that a cell names.
func (c *Cell) category(buf []byte) ([]byte, bool) {
	switch c.Kind {
	case Text:
		return c.Text, true
	case Bool:
		if c.Num != 0 {
			return append(buf, "true"...), true
		}
		return append(buf, "false"...), true
	case Number, Time:
		return strconv.AppendFloat(buf, c.Num, 'g', -1, 64), c.finite()
	}
	return nil, false
}

func (e *encoder) category(i int, f *Field, c *Cell) *FieldError {
	var room [32]byte
	text, ok := c.category(room[:0])
	if !ok {
		return invalid(f, c)
	}
	text = f.part(text)
	if f.Hash > 0 {
		j, sign := f.slot(text)
		e.set(f.at+j, float32(sign)*half)
		return nil
	}
	k := f.find(text)
	if k < 0 {
		switch cmp.Or(f.Unknown, e.s.Unknown, OtherCategory) {
		case Refuse:
			return &FieldError{f.Name, stream.ReasonLabel, fmt.Errorf("%s is not one of its %d categories", c.what(), len(f.Categories))}
		case Zero:
			e.note(i, Unknown)
			return nil
		}
		e.note(i, Unknown)
		k = len(f.Categories)
	}
	e.set(f.at+k, half)
	return nil
}

// part returns the part of a text that is the category.
func (f *Field) part(text []byte) []byte {
	if i := bytes.LastIndex(text, []byte(f.After)); i >= 0 && f.After != "" {
		text = text[i+len(f.After):]
	}
	if f.Before != "" {
		text, _, _ = bytes.Cut(text, []byte(f.Before))
	}
	return text
}

// find returns the index of a category, or -1.
func (f *Field) find(text []byte) int {
	if f.categories == nil {
		for k, c := range f.Categories {
			if c == string(text) {
				return k
			}
		}
		return -1
	}
	if k, ok := f.categories[string(text)]; ok {
		return k
	}
	return -1
}

// listed returns the items of a list in a text, without blanks around them.
func listed(text []byte, sep string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for item := range bytes.SplitSeq(text, []byte(sep)) {
			if item = bytes.TrimSpace(item); len(item) > 0 && !yield(item) {
				return
			}
		}
	}
}

// tags encodes a list of categories, or a text with some, each once.
func (e *encoder) tags(i int, f *Field, c *Cell) *FieldError {
	if c.Kind == Text && f.Split != "" {
		from := len(e.row.Items)
		for item := range listed(c.Text, f.Split) {
			e.row.Items = append(e.row.Items, Cell{Kind: Text, Text: item})
		}
		c = &Cell{Kind: List, From: int32(from), To: int32(len(e.row.Items))}
	}
	if c.Kind != List || c.To-c.From > MaxArray {
		return invalid(f, c)
	}
	items := e.row.Items[c.From:c.To]
	for k := range items {
		switch {
		case items[k].Kind != Text && items[k].Kind != Number && items[k].Kind != Bool:
			return invalid(f, c)
		case !items[k].finite():
			err := invalid(f, &items[k])
			err.Field = fmt.Sprintf("%s[%d]", f.Name, k)
			return err
		}
	}
	e.row.sums = e.row.sums[:0]
	for k := range items {
		var room [32]byte
		text, _ := items[k].category(room[:0])
		if f.Hash > 0 {
			j, sign := f.slot(text)
			e.row.sums = append(e.row.sums, term{int32(j), float32(sign) * half})
			continue
		}
		j := f.find(text)
		if j < 0 {
			e.note(i, Unknown)
			if cmp.Or(f.Unknown, e.s.Unknown, OtherCategory) == Zero {
				continue
			}
			j = len(f.Categories)
		}
		e.row.sums = append(e.row.sums, term{int32(j), half})
	}
	e.add(f, f.Hash > 0, 1)
	return nil
}
