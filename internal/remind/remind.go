// Package remind says when to say again that something is waited for.
package remind

import "time"

// After how long it is said first, and the shortest and longest time between
// two more; each is twice the one before.
const (
	first    = 2 * time.Second
	shortest = 15 * time.Second
	longest  = time.Hour
)

// Reminder counts from the first call of Due. The zero value is ready for use.
type Reminder struct {
	next time.Time
	gap  time.Duration
}

// Due reports whether it is to be said at now, and if so, that it has been.
func (r *Reminder) Due(now time.Time) bool {
	switch {
	case r.next.IsZero():
		r.next, r.gap = now.Add(first), shortest
		return false
	case now.Before(r.next):
		return false
	}
	r.next, r.gap = now.Add(r.gap), min(2*r.gap, longest)
	return true
}

// Next returns when it is to be said next.
func (r *Reminder) Next() time.Time { return r.next }
