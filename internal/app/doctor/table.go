package doctor

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/stream/codec"
)

// table is what the columns of separated values seem to be.
type table struct {
	comma   byte
	columns int
	rows    [][]string // those with as many columns, but for headers
	headers [][]string // those of words only, of as many columns
	label   int        // column from 0 on, -1 if there is none
	also    []int      // columns that could as well be the label
	words   []int      // columns of text, other than the label
	// empty and missing count rows with an empty feature, and with one that
	// says that there is none.
	empty, missing int
}

// missingWords are what programs write where a number is missing.
var missingWords = []string{"na", "n/a", "nan", "null", "none", "nil", "-", "?", "\\n", "inf", "-inf", "infinity"}

// separators are those that are tried, the most usual first.
const separators = ",;\t|"

// split returns the fields of a record, nil if it has no proper form.
func split(s string, comma byte) []string {
	r := csv.NewReader(strings.NewReader(s))
	r.Comma, r.LazyQuotes, r.TrimLeadingSpace = rune(comma), true, comma != '\t'
	fields, err := r.Read()
	if err != nil {
		return nil
	}
	for i, f := range fields {
		fields[i] = strings.TrimSpace(f)
	}
	return fields
}

// readTable finds separator, columns and label of records, which are to be read
// with the options present unless there are better ones.
func readTable(values []string, present codec.CSVOptions) *table {
	t := &table{label: -1}
	best := 0
	for _, comma := range append([]byte{present.Comma}, separators...) {
		if comma == 0 {
			continue
		}
		n := map[int]int{}
		for _, v := range values {
			n[len(split(v, comma))]++
		}
		for columns, rows := range n {
			// As many rows in more columns are better, but present stays where it splits.
			if columns > 1 && (rows > best || rows == best && columns > t.columns && t.comma != present.Comma) {
				best, t.comma, t.columns = rows, comma, columns
			}
		}
	}
	if t.columns == 0 {
		return t
	}
	for _, v := range values {
		row := split(v, t.comma)
		switch {
		case len(row) != t.columns:
		case !slices.ContainsFunc(row, func(f string) bool {
			return f == "" || isNumber(f) || slices.Contains(missingWords, strings.ToLower(f))
		}):
			t.headers = append(t.headers, row)
		default:
			t.rows = append(t.rows, row)
		}
	}
	t.findLabel(present)
	for k := range t.columns {
		if n := t.count(k, func(f string) bool {
			return f != "" && !isNumber(f) && !slices.Contains(missingWords, strings.ToLower(f))
		}); k != t.label && n*20 > len(t.rows) {
			t.words = append(t.words, k)
		}
	}
	for _, row := range t.rows {
		empty, missing := false, false
		for k, f := range row {
			if k == t.label || slices.Contains(t.words, k) {
				continue
			}
			empty = empty || f == ""
			missing = missing || slices.Contains(missingWords, strings.ToLower(f))
		}
		if empty {
			t.empty++
		}
		if missing {
			t.missing++
		}
	}
	return t
}

func (t *table) count(k int, is func(string) bool) (n int) {
	for _, row := range t.rows {
		if is(row[k]) {
			n++
		}
	}
	return n
}

// labels counts the labels that column k would hold.
func (t *table) labels(k int) tally {
	all := tally{}
	for _, row := range t.rows {
		all.add(textLabel(row[k]))
	}
	return all
}

// findLabel looks for the column of the label: the one that the settings name,
// the one whose name says it, or one of two values; the last or the first one
// if there are several.
func (t *table) findLabel(present codec.CSVOptions) {
	switch present.LabelColumn {
	case "":
	case "first":
		t.label = 0
	case "last":
		t.label = t.columns - 1
	default:
		if k, err := strconv.Atoi(present.LabelColumn); err == nil && k >= 1 && k <= t.columns {
			t.label = k - 1
		}
	}
	if t.label >= 0 {
		return
	}
	if len(t.headers) > 0 {
		if k := slices.IndexFunc(t.headers[0], labelName); k >= 0 {
			t.label = k
			return
		}
	}
	var two []int
	for k := range t.columns {
		if len(t.labels(k)) == 2 {
			two = append(two, k)
		}
	}
	last, first := slices.Contains(two, t.columns-1), slices.Contains(two, 0)
	switch {
	case len(two) == 0:
	case last && !first:
		t.label = t.columns - 1
	case first && !last:
		t.label = 0
	case len(two) == 1:
		t.label = two[0]
	default:
		t.also = two
	}
}

// column names column k, from 0 on, for the setting label-column.
func (t *table) column(k int) string {
	switch k {
	case 0:
		return "first"
	case t.columns - 1:
		return "last"
	}
	return strconv.Itoa(k + 1)
}

// numbers are those of columns, from 1 on, for people and settings.
func numbers(ks []int) string {
	var list []string
	for _, k := range ks {
		list = append(list, strconv.Itoa(k+1))
	}
	return strings.Join(list, ",")
}

// likely says which column could be a label of several classes or a quantity.
func (t *table) likely() string {
	for _, k := range []int{t.columns - 1, 0} {
		if all := t.labels(k); len(all) > 2 && len(all) <= 20 {
			return fmt.Sprintf("; the %s one has the values %s", t.column(k), all)
		}
	}
	return ""
}
