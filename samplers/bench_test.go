package samplers

import "testing"

// BenchmarkCycle is what a buffer costs a learner that learns from each example
// at once.
func BenchmarkCycle(b *testing.B) {
	s, err := New(Options{Every: 1})
	if err != nil {
		b.Fatal(err)
	}
	x := labelled(7)
	n := 0
	for b.Loop() {
		if _, err := s.Add(x); err != nil {
			b.Fatal(err)
		}
		if s.Need().Fresh == 0 {
			n += len(s.Take().Join)
		}
	}
}
