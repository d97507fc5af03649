package remind

import (
	"slices"
	"testing"
	"time"
)

func TestReminder(t *testing.T) {
	var r Reminder
	start := time.Unix(1000, 0)
	var said []int
	for s := range 6 * 3600 {
		if now := start.Add(time.Duration(s) * time.Second); r.Due(now) {
			said = append(said, s)
			if !r.Next().After(now) {
				t.Fatalf("said at %d s, next at %v", s, r.Next())
			}
		}
	}
	want := []int{2, 17, 47, 107, 227, 467, 947, 1907, 3827, 7427, 11027, 14627, 18227}
	if !slices.Equal(said, want) {
		t.Errorf("said at %v, want %v", said, want)
	}
}
