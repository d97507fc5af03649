package codec

import (
	"encoding/csv"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Separators are those that CSV files have, the most usual first.
const Separators = ",;\t|"

// GuessSeparator returns the separator with which most rows have the same number of
// columns, more than one: on a tie the set one, otherwise the one with more columns. But where all
// commas are decimal commas, they separate nothing.
func GuessSeparator(rows []string, set byte) byte {
	comma, columns, best := set, 0, 0
	for _, sep := range append([]byte{set}, Separators...) {
		n := map[int]int{}
		for _, row := range rows {
			n[len(SplitRow(row, sep))]++
		}
		for _, c := range slices.Sorted(maps.Keys(n)) {
			if k := n[c]; c > 1 && (k > best || k == best && (c > columns && (comma != set || sep == set) || comma == ',' && decimalCommas(rows, sep))) {
				comma, columns, best = sep, c, k
			}
		}
	}
	return comma
}

var decimalComma = regexp.MustCompile(`^[^\pL\d,]*\d[\d.]*,\d+[^\pL\d,]*$`)

// decimalCommas reports whether each field with a comma is a number, if sep separates fields.
func decimalCommas(rows []string, sep byte) bool {
	return !slices.ContainsFunc(rows, func(row string) bool {
		return slices.ContainsFunc(SplitRow(row, sep), func(field string) bool {
			return strings.Contains(field, ",") && !decimalComma.MatchString(field)
		})
	})
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
