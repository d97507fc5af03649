package events

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Values of Field.Comma.
const (
	Thousands    = "thousands" // 1,234.50, 1 234.50 or 1'234.50
	DecimalComma = "decimal"   // 1234,50, 1.234,50, 1 234,50 or 1'234,50
)

// grouped are the digits of a number, by Field.Comma: with groups of three digits, or of two as in
// India, and the last of three.
var grouped = map[string]*regexp.Regexp{
	Thousands:    regexp.MustCompile(`^(\d*|\d{1,3}(?:[,' \x{a0}\x{202f}]\d{2,3})*[,' \x{a0}\x{202f}]\d{3})((?:\.\d*)?)$`),
	DecimalComma: regexp.MustCompile(`^(\d*|\d{1,3}(?:[.' \x{a0}\x{202f}]\d{2,3})*[.' \x{a0}\x{202f}]\d{3})((?:,\d*)?)$`),
}

// clockUnit is the unit of durations and times of the day such as 14:35 or 1:02:03.5. They are
// numbers of whatever comes first.
const clockUnit = ":"

var clocks = regexp.MustCompile(`^(\d{1,4}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?$`)

const longestUnit = 16 // bytes

// decimal returns the number in a text, which may have the unit of f, or none, before or behind
// it, and separators as f.Comma says. With a unit, those of thousands need not be said.
func (f *Field) decimal(text []byte) (float64, bool) {
	if f.Type != Numeric || f.Unit == "" && f.Comma == "" || len(text) > 64 {
		return decimal(text)
	}
	a, ok := takeApart(string(text))
	if !ok || a.unit != "" && a.unit != f.Unit && !sameWord(a.unit, f.Unit) {
		return 0, false
	}
	var v float64
	var m []string
	if f.Unit == clockUnit {
		m = clocks.FindStringSubmatch(a.digits)
	}
	if m != nil {
		first, _ := decimal([]byte(m[1]))
		second, _ := decimal([]byte(m[2]))
		third, _ := decimal([]byte(m[3]))
		v = first + (second+third/60)/60
	} else if m = grouped[cmp.Or(f.Comma, Thousands)].FindStringSubmatch(a.digits); m == nil {
		return 0, false
	} else if v, ok = decimal([]byte(strings.Map(digit, m[1]) + strings.Replace(m[2], ",", ".", 1))); !ok {
		return 0, false
	}
	if a.minus {
		v = -v
	}
	return v, true
}

// sameWord reports whether two units are one word, with an s or without: 1 day, 2 days.
func sameWord(a, b string) bool {
	a, b = strings.TrimSuffix(a, "s"), strings.TrimSuffix(b, "s")
	return a == b && len(a) >= 3 // not m and ms
}

func digit(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}

// An amount is a text with a number taken apart: its sign, what is between its first digit and its
// last one, and its unit, which is before the digits or behind them.
type amount struct {
	minus  bool
	digits string
	unit   string
	before bool
}

// takeApart returns the amount in a text. ok is false if there is no digit, or something before the
// digits and behind them.
func takeApart(text string) (a amount, ok bool) {
	const all = "0123456789"
	first, last := strings.IndexAny(text, all), strings.LastIndexAny(text, all)
	switch {
	case first < 0:
		return a, false
	case strings.HasSuffix(text[:first], "."):
		if r, _ := utf8.DecodeLastRuneInString(text[:first-1]); !unicode.IsLetter(r) {
			first-- // $.50, but not Rs.50
		}
	}
	before, after := text[:first], strings.TrimSpace(text[last+1:])
	if strings.Contains(before, "(") && strings.Contains(after, ")") { // as accountants write it: (12.50)
		a.minus, before, after = true, strings.Replace(before, "(", "", 1), strings.TrimSpace(strings.Replace(after, ")", "", 1))
	} else if rest, ends := strings.CutSuffix(after, "-"); ends {
		a.minus, after = true, strings.TrimSpace(rest)
	}
	before = strings.TrimSpace(before)
	for _, sign := range []string{"-", "\u2212", "+"} {
		rest, begins := strings.CutPrefix(before, sign)
		if !begins {
			rest, begins = strings.CutSuffix(before, sign)
		}
		if begins {
			a.minus, before = sign != "+", strings.TrimSpace(rest)
			break
		}
	}
	a.digits, a.unit, a.before = text[first:last+1], before+after, before != ""
	return a, before == "" || after == ""
}

// likely reports whether the unit is likely to be one: kg, %, US$. Before a number only a
// currency is; room 12 is a name.
func (a *amount) likely() bool {
	sign := func(r rune) bool { return unicode.Is(unicode.Sc, r) }
	return len(a.unit) <= longestUnit && utf8.ValidString(a.unit) &&
		(!a.before || strings.ContainsFunc(a.unit, sign) || slices.Contains(currencies, a.unit))
}

// currencies are units that stand before numbers.
var currencies = strings.Fields("AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF INR JPY KRW MXN NOK NZD PLN Rs Rs. SEK SGD TRY USD ZAR")

// Measured reports whether a text is a number, perhaps with a unit or separators, or a time.
func Measured(text []byte) bool {
	if _, ok := decimal(text); ok || isTime(text) || clocks.Match(text) {
		return true
	}
	a, ok := takeApart(string(text))
	return ok && a.likely() && (grouped[Thousands].MatchString(a.digits) || grouped[DecimalComma].MatchString(a.digits))
}

// amount reports whether nearly all of n values are numbers, or texts that are numbers with one unit,
// or with separators, and sets both.
func (c *column) amount(f *Field, n int) bool {
	units := map[string]int{}
	for text, k := range c.texts {
		a, ok := takeApart(text)
		switch {
		case clocks.MatchString(text):
			units[clockUnit] += k
		case ok && a.unit != "" && a.likely():
			units[a.unit] += k
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		if f.Unit == "" || units[unit] > units[f.Unit] {
			f.Unit = unit
		}
	}
	most, comma := 0, ""
	f.Type = Numeric
	for _, f.Comma = range []string{"", Thousands, DecimalComma} {
		good := 0
		for text, k := range c.texts {
			if _, ok := f.decimal([]byte(text)); ok {
				good += k
			}
		}
		if good > most {
			most, comma = good, f.Comma
		}
	}
	if f.Comma = comma; most > 0 && nearly(most+c.kinds[Number], n) {
		return true
	}
	f.Type, f.Unit, f.Comma = Ignore, "", ""
	return false
}
