package events

import (
	"math"
	"strings"
	"time"
)

// time returns the time in a cell.
func (f *Field) time(c *Cell) (time.Time, bool) {
	ms := c.Num
	if c.Kind == Text {
		t, ok := parseTime(c.Text)
		if ok {
			return t, true
		}
		if ms, ok = decimal(c.Text); !ok {
			return t, false
		}
	}
	switch {
	case c.Kind != Time && c.Kind != Number && c.Kind != Text:
		return time.Time{}, false
	case c.Kind != Time && f.Unit == "s":
		ms *= 1000
	}
	if !(math.Abs(ms) < 1e15) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}

// layouts are RFC 3339 and variants of it: with a blank, without a zone (then it is UTC),
// without a time.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02"}

func parseTime(text []byte) (time.Time, bool) {
	if len(text) < 10 || len(text) > 40 || text[4] != '-' {
		return time.Time{}, false
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, string(text)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// parts encodes each part of a time as a point on a circle with a diameter of 1.
func (e *encoder) parts(f *Field, t time.Time) {
	for k, p := range f.Parts {
		turn := float64(t.Hour())/24 + float64(t.Minute())/1440
		if p == "weekday" {
			turn = float64(t.Weekday()) / 7
		}
		sin, cos := math.Sincos(2 * math.Pi * turn)
		e.set(f.at+2*k, float32(sin)/2)
		e.set(f.at+2*k+1, float32(cos)/2)
	}
}

// timeName reports whether a field with this name may hold times.
func timeName(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	for _, end := range []string{"ts", "time", "date", "_at", "timestamp"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// within reports whether the times, in units of 1/per seconds, are in 2000 to 2100.
func within(first, last, per float64) bool {
	from := float64(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	to := float64(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	return first >= from*per && last < to*per
}
