package events

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// units are the lengths of the units of times that are numbers, in milliseconds.
var units = map[string]float64{"": 1, "s": 1000, "ms": 1, "us": 1e-3, "ns": 1e-6, "d": 86_400_000}

// yyyymmdd is the unit of dates that are numbers of eight digits, such as 20260301.
const yyyymmdd = "yyyymmdd"

// Values of Field.Order.
const (
	DayFirst   = "dmy"
	MonthFirst = "mdy"
)

// time returns the time in a cell.
func (f *Field) time(c *Cell) (time.Time, bool) {
	ms := c.Num
	if c.Kind == Text {
		t, ok := parseTime(c.Text, f.Order)
		if ok {
			return t, true
		}
		if ms, ok = decimal(c.Text); !ok {
			return t, false
		}
	}
	switch {
	case c.Kind == Time:
	case c.Kind != Number && c.Kind != Text:
		return time.Time{}, false
	case f.Unit == yyyymmdd:
		return compact(ms)
	default:
		ms *= units[f.Unit]
	}
	if !(math.Abs(ms) < 1e15) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}

// compact returns the date that a number of eight digits spells.
func compact(v float64) (time.Time, bool) {
	if !(v >= 1e7 && v < 1e8) || v != math.Trunc(v) {
		return time.Time{}, false
	}
	n := int(v)
	return date(n/10000, n/100%100, n%100)
}

// date returns a day, if there is one.
func date(year, month, day int) (time.Time, bool) {
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t, t.Day() == day && int(t.Month()) == month
}

// Dates with a time behind them, or without: the year first, last, or with the month's name. The
// zone is UTC where it is not given.
var (
	clock = `(?:(?:T|, ?| |_|:)(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?: ?([AaPp])[Mm])?(?: ?(Z|(?:UTC|GMT)?(?:[-+]\d\d(?::?\d\d)?)?)(?: \(.*\))?)?)?$`

	yearFirst  = regexp.MustCompile(`^(\d{4})([-/.])(\d{1,2})([-/.])(\d{1,2})` + clock)
	yearLast   = regexp.MustCompile(`^(\d{1,2})([-/.])(\d{1,2})([-/.])(\d{4}|\d\d)` + clock)
	monthSpelt = regexp.MustCompile(`^(?:[A-Za-z]{3,9},? )?(?:(\d{1,2})[-/ ]([A-Za-z]{3,9})[-/ ,] ?|([A-Za-z]{3,9})\.? (\d{1,2}),? )(\d{4})` + clock)

	yearAtEnd = regexp.MustCompile(`^[A-Za-z]{3} ([A-Za-z]{3}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)(?: (\S{3,5}))? (\d{4})$`)
	allDigits = regexp.MustCompile(`^((?:19|20)\d\d)(\d\d)(\d\d)T?(\d\d)(\d\d)(\d\d)(?:[.,](\d{1,9}))?(Z)?$`)
)

// parseTime reads a time. Where the year comes last, order says whether the day is first or the
// month; without it such texts are no times.
func parseTime(text []byte, order string) (time.Time, bool) {
	if len(text) < 8 || len(text) > 80 {
		return time.Time{}, false
	}
	if text[4] == '-' { // the usual form, and the fastest
		if t, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
			return t.UTC(), true
		}
	}
	var year, month, day string
	if m := yearAtEnd.FindSubmatch(text); m != nil { // Wed May 06 18:20:24 2026
		return parseTime(bytes.Join([][]byte{m[1], m[2], m[5], m[3], m[4]}, []byte(" ")), order)
	}
	m := yearFirst.FindStringSubmatch(string(text))
	if m != nil && m[2] == m[4] {
		year, month, day = m[1], m[3], m[5]
	} else if m = monthSpelt.FindStringSubmatch(string(text)); m != nil {
		year, month, day = m[5], monthOf(m[2]+m[3]), m[1]+m[4]
	} else if m = allDigits.FindStringSubmatch(string(text)); m != nil { // 20260506182024
		year, month, day = m[1], m[2], m[3]
		m = append(make([]string, 6), m[4], m[5], m[6], m[7], "", m[8])
	} else if m = yearLast.FindStringSubmatch(string(text)); m != nil && order != "" && m[2] == m[4] && (len(m[5]) == 4 || m[2] == "/") {
		year, month, day = m[5], m[3], m[1]
		if order == MonthFirst {
			day, month = month, day
		}
	} else {
		return time.Time{}, false
	}
	t, ok := date(whole(year), whole(month), whole(day))
	if len(year) == 2 { // as in POSIX
		t, ok = date(1969+(whole(year)+31)%100, whole(month), whole(day))
	}
	if !ok {
		return t, false
	}
	return withClock(t, m[6:])
}

// isTime reports whether a text is a time, with either order of day and month.
func isTime(text []byte) bool {
	_, day := parseTime(text, DayFirst)
	_, month := parseTime(text, MonthFirst)
	return day || month
}

func whole(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// monthOf returns the number of the month with an English name, which may be abbreviated.
func monthOf(name string) string {
	name = strings.ToLower(name)
	for m := time.January; m <= time.December; m++ {
		if strings.HasPrefix(strings.ToLower(m.String()), name) || name == "sept" && m == time.September {
			return strconv.Itoa(int(m))
		}
	}
	return ""
}

// withClock adds hour, minute, second, fraction, A or P, and zone to a day.
func withClock(t time.Time, part []string) (time.Time, bool) {
	hour, minute, second := whole(part[0]), whole(part[1]), whole(part[2])
	if half := strings.ToLower(part[4]); half != "" {
		if hour < 1 || hour > 12 {
			return t, false
		}
		hour %= 12
		if half == "p" {
			hour += 12
		}
	}
	zone, wrong := 0, false
	if z := strings.TrimLeft(strings.ReplaceAll(part[5], ":", ""), "UTCGM"); len(z) >= 3 {
		hours, minutes := whole(z[1:3]), whole(z[3:])
		wrong = hours > 24 || minutes > 59 // as in time.Parse
		zone = 60*hours + minutes
		if z[0] == '-' {
			zone = -zone
		}
	}
	nanoseconds := whole((part[3] + "000000000")[:9])
	t = t.Add(time.Duration(60*hour+minute-zone)*time.Minute + time.Duration(second)*time.Second + time.Duration(nanoseconds))
	return t, hour < 24 && minute < 60 && second < 60 && !wrong
}

// order reports whether nearly all of n texts are times with the year last, and sets the order
// of day and month. If both are possible, times are taken to be close to one another.
func (c *column) order(f *Field, n int) bool {
	least := math.Inf(1)
	for _, order := range []string{DayFirst, MonthFirst} {
		var first, last time.Time
		good := 0
		for text, k := range c.texts {
			t, ok := parseTime([]byte(text), order)
			if !ok {
				continue
			}
			if good == 0 || t.Before(first) {
				first = t
			}
			if good == 0 || t.After(last) {
				last = t
			}
			good += k
		}
		if span := last.Sub(first).Hours(); good > 0 && nearly(good, n) && span < least {
			f.Order, least = order, span
		}
	}
	return f.Order != ""
}

// timeName reports whether a field with this name may hold times.
func timeName(name string) bool {
	if strings.HasSuffix(name, "At") || strings.HasSuffix(name, "On") { // createdAt, not format
		return true
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"ts", "time", "date", "_at", "_on", "stamp", "created", "updated", "modified"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// timeUnit returns the unit of whole numbers from first to last in a field with this name, if they
// are times from 2000 to 2100, or dates of eight digits from 1900 on. Otherwise it is empty.
func timeUnit(name string, first, last float64) string {
	if !timeName(name) {
		return ""
	}
	from, to := float64(from2000.UnixMilli()), float64(from2000.AddDate(100, 0, 0).UnixMilli())
	list := []string{"s", "ms", "us", "ns"}
	dates := strings.HasSuffix(strings.ToLower(name), "date")
	if dates {
		list = append(list, "d")
	}
	for _, unit := range list {
		if first*units[unit] >= from && last*units[unit] < to {
			return unit
		}
	}
	_, begins := compact(first)
	_, ends := compact(last)
	if dates && begins && ends && first > 1900_00_00 && last < 2100_00_00 {
		return yyyymmdd
	}
	return ""
}
