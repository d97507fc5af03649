package rank

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Entries are selected as sorting would have it.
func TestNth(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 3000 {
		s := make([]Entry, 1+r.IntN(70))
		for j := range s {
			s[j] = Entry{float64(r.IntN(1 + r.IntN(40))), int32(j)}
		}
		r.Shuffle(len(s), func(a, b int) { s[a], s[b] = s[b], s[a] })
		want := slices.SortedFunc(slices.Values(s), Compare)
		i := r.IntN(len(s))
		got := Nth(s, i)
		slices.SortFunc(s[:i], Compare)
		slices.SortFunc(s[i+1:], Compare)
		if got != want[i] || !slices.Equal(s, want) {
			t.Fatalf("entry %d of %v is %v", i, want, got)
		}
	}
}
