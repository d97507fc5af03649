// Package remind schedules repeated log messages about something that a program is
// waiting for, at growing intervals.
package remind

import "time"

// The delay of the first message, and the shortest and longest interval between
// later ones, each of which is twice the one before.
const (
	first    = 2 * time.Second
	shortest = 15 * time.Second
	longest  = time.Hour
)

// Reminder counts from the first call of Due. The zero value is ready to use.
type Reminder struct {
	next time.Time
	gap  time.Duration
}

// Due reports whether a message is due at now. If so, it schedules the next one.
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

// Next returns when the next message is due.
func (r *Reminder) Next() time.Time { return r.next }
