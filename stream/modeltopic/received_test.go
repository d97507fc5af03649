package modeltopic

import "testing"

// What came after before, and before, are all.
func TestReceivedSub(t *testing.T) {
	before, after := Received{Fulls: 3, Deltas: 20, Bytes: 1000}, Received{Fulls: 5, Deltas: 70, Bytes: 9000}
	if got, want := after.Sub(before), (Received{Fulls: 2, Deltas: 50, Bytes: 8000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
