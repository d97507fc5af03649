package events

import (
	"math"
	"slices"
	"time"
)

// Parts of a time.
const (
	hourPart    = "hour"
	weekdayPart = "weekday"
	agePart     = "age"
)

// aged reports whether a field of times has the part age.
func (f *Field) aged() bool { return f.Type == Timestamp && slices.Contains(f.Parts, agePart) }

// AgesUpTo is what ages are measured up to if Field.Until is empty: 2000-01-01, in milliseconds
// since 1970.
const AgesUpTo = 946_684_800_000

var from2000 = time.UnixMilli(AgesUpTo).UTC()

// Milliseconds returns the unit of a time that is a number, or 0 if it is yyyymmdd.
func (f *Field) Milliseconds() float64 { return units[f.Unit] }

// parts encodes the age, and each other part of a time as a point on a circle with a diameter
// of 1.
func (e *encoder) parts(f *Field, t time.Time) {
	at := f.at
	if f.aged() {
		e.number(f, 0, e.age(f, t))
		at++
	}
	for _, p := range f.Parts {
		turn := float64(t.Hour())/24 + float64(t.Minute())/1440
		switch p {
		case agePart:
			continue
		case weekdayPart:
			turn = float64(t.Weekday()) / 7
		}
		sin, cos := math.Sincos(2 * math.Pi * turn)
		e.set(at, float32(sin)/2)
		e.set(at+1, float32(cos)/2)
		at += 2
	}
}

// age returns the days from t to the time of the field f.Until, or the mean if there is none.
func (e *encoder) age(f *Field, t time.Time) float64 {
	end := from2000
	if f.Until != "" {
		until, c := &e.s.Fields[f.until], &e.row.Cells[f.until]
		var ok bool
		if end, ok = until.time(c); !ok || until.null(c) {
			return f.Means[0]
		}
	}
	return days(t, end)
}

func days(from, to time.Time) float64 {
	return float64(to.UnixMilli()-from.UnixMilli()) / 86_400_000
}

// longSpan, of a single field of times, makes them dates of birth, say, and not the times of
// events.
const longSpan = 10 * 366 // days

// times chooses the parts of the fields of times, and what their ages are measured up to: the
// one that is the latest in most events.
func (s *Schema) times(events [][]NamedCell) {
	at := map[string]int{}
	for i := range s.Fields {
		if s.Fields[i].Type == Timestamp {
			at[s.Fields[i].Name] = i
		}
	}
	all := make([][]time.Time, len(s.Fields)) // of each event; zero is none
	for i := range at {
		all[at[i]] = make([]time.Time, len(events))
	}
	for k, e := range events {
		for j := range e {
			if i, ok := at[e[j].Name]; ok {
				if t, ok := s.Fields[i].time(&e[j].Cell); ok && !s.Fields[i].null(&e[j].Cell) {
					all[i][k] = t
				}
			}
		}
	}
	latest := make([]int, len(s.Fields))
	for k := range events {
		last := -1
		for i := range all {
			if all[i] != nil && !all[i][k].IsZero() && (last < 0 || all[i][k].After(all[last][k])) {
				last = i
			}
		}
		if last >= 0 {
			latest[last]++
		}
	}
	reference := -1
	for i := range all {
		if all[i] != nil && (reference < 0 || latest[i] > latest[reference]) {
			reference = i
		}
	}
	for i := range all {
		f := &s.Fields[i]
		if f.Type == Timestamp && f.Parts == nil {
			until := ""
			if i != reference {
				until = s.Fields[reference].Name
			}
			f.chooseParts(all[i], until)
		}
		if !f.aged() {
			continue
		}
		var ages []float64
		for k, t := range all[i] {
			end := from2000
			if j, ok := at[f.Until]; ok {
				end = all[j][k]
			}
			if !t.IsZero() && !end.IsZero() {
				ages = append(ages, days(t, end))
			}
		}
		f.setMeans(ages)
	}
}

// chooseParts chooses parts that say something: no hour of dates, an age of times before
// others, or long ago.
func (f *Field) chooseParts(times []time.Time, until string) {
	var first, last time.Time
	dates := true
	for _, t := range times {
		if t.IsZero() {
			continue
		}
		dates = dates && t.Truncate(24*time.Hour).Equal(t)
		if first.IsZero() || t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	long := days(first, last) > longSpan
	if !dates || first.IsZero() {
		f.Parts = append(f.Parts, hourPart)
	}
	if !dates || !long {
		f.Parts = append(f.Parts, weekdayPart)
	}
	if until != "" || long {
		f.Parts, f.Until = append(f.Parts, agePart), until
	}
}
