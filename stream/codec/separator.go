package codec

import (
	"encoding/csv"
	"maps"
	"slices"
	"strings"
)

// Separators are those that CSV files have, the most usual first.
const Separators = ",;\t|"

// GuessSeparator returns the separator with which most rows have the same number of
// columns, more than one: on a tie the one with more columns, then one that is no comma, since numbers
// may have commas, then the set one.
func GuessSeparator(rows []string, set byte) byte {
	comma, columns, best := set, 0, 0
	for _, sep := range append([]byte{set}, Separators...) {
		n := map[int]int{}
		for _, row := range rows {
			n[len(SplitRow(row, sep))]++
		}
		for _, c := range slices.Sorted(maps.Keys(n)) {
			if k := n[c]; c > 1 && (k > best || k == best && (c > columns || c == columns && comma == ',')) {
				comma, columns, best = sep, c, k
			}
		}
	}
	return comma
}

// SplitRow returns the fields of a CSV row, nil if it is not CSV.
func SplitRow(row string, sep byte) []string {
	r := csv.NewReader(strings.NewReader(strings.TrimSpace(row)))
	r.Comma, r.LazyQuotes = rune(sep), true
	fields, err := r.Read()
	if err != nil {
		return nil
	}
	return fields
}
