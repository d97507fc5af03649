// Package spell words messages: it suggests the name meant by a misspelled one, and counts things.
package spell

import (
	"fmt"
	"strings"
)

// DidYouMean returns a suggestion to append to an error about the name s: the
// nearest of names, or nothing if none is near.
func DidYouMean(s string, names []string) string {
	if n := Nearest(s, names); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

// Canonical makes different spellings of a name equal: maxDown, MAX_DOWN and
// max.down.
func Canonical(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '_' || r == '.' || r == ' ' || r == '-':
		case r >= 'A' && r <= 'Z':
			b.WriteRune(r - 'A' + 'a')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Nearest returns the name closest to s, or "" if none is close: one at a small
// edit distance, otherwise the shortest one that contains s, otherwise one at a
// moderate edit distance. The way words are separated does not matter.
func Nearest(s string, names []string) string {
	want := Canonical(s)
	best, dist := "", len(want)/3+2
	for _, n := range names {
		if d := editDistance(want, Canonical(n)); d < dist {
			best, dist = n, d
		}
	}
	if best != "" && dist <= max(1, len(want)/4) || len(want) < 4 {
		return best
	}
	whole := ""
	for _, n := range names {
		if strings.Contains(Canonical(n), want) && (whole == "" || len(n) < len(whole)) {
			whole = n
		}
	}
	if whole != "" {
		return whole
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag, row[j] = row[j], min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// Count writes "1 record" or "2 records".
func Count[N int | int64 | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
