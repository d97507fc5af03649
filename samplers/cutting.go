package samplers

// Cut says when a sample was cut to its recent part, and how.
type Cut struct {
	At       uint64  // labelled examples so far
	From, To int     // examples held before and after
	Z        float64 // of the test that the recent part serves better
}
