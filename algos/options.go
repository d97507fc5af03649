package algos

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Option documents one option of a learner. It is read from the tags of a field of
// the learner's options struct:
//
//	Lambda float64 `opt:"lambda" default:"1" range:"(0,inf)" tune:"log 1e-6 1" paper:"eq 1" doc:"ridge weight"`
//
// A field is a float64, int, uint64, bool or string. Fields of an embedded
// struct count as its own.
//
// A field with the tag fixed instead of default is a constant for users. Presets,
// states of earlier versions and tests may give it another value.
//
//	Initial int `opt:"initial" fixed:"256" range:"[2,1e6]"`
//
// A blank field is an option of an earlier version. States may contain it with its
// fixed value.
//
//	_ struct{} `opt:"passes" fixed:"1"`
type Option struct {
	// Name is the name that users type, Alias a second name, if any.
	Name  string `json:"name"`
	Alias string `json:"alias,omitempty"`
	// Type is the kind of the field, such as float64, or enum.
	Type string `json:"type"`
	// Default is the default value, as text.
	Default string `json:"default"`
	// Range is the interval of a number: ( and ) for open ends, [ and ] for closed
	// ones. Empty sets no bound.
	Range string `json:"range,omitempty"`
	// Enum lists the allowed values of a string, separated by commas. Empty allows
	// any.
	Enum string `json:"enum,omitempty"`
	// Auto explains the value "auto", which is stored as NaN (float64) or 0 (int).
	// Empty if the option has no such value.
	Auto string `json:"auto,omitempty"`
	// Tune lists the tuner's candidates: "log LO HI" or "list A B C"; empty if the
	// option is not tuned.
	Tune string `json:"tune,omitempty"`
	// Paper is the symbol, equation or value in the paper, if there is one.
	Paper string `json:"paper,omitempty"`
	// Doc says what the option does, and its unit.
	Doc string `json:"doc"`

	field []int
	fixed bool
	blank bool // no field has its value
}

// Candidates returns the tuner's candidates for the option, n of them if it is tuned
// over a range, or nil if it is not tuned.
func (o Option) Candidates(n int) []string {
	words := strings.Fields(o.Tune)
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "list":
		return words[1:]
	case words[0] == "log" && len(words) == 3:
		lo, err1 := strconv.ParseFloat(words[1], 64)
		hi, err2 := strconv.ParseFloat(words[2], 64)
		if err1 != nil || err2 != nil || n < 1 {
			return nil
		}
		var out []string
		for i := range n {
			t := 0.5
			if n > 1 {
				t = float64(i) / float64(n-1)
			}
			v := math.Exp2((1-t)*math.Log2(lo) + t*math.Log2(hi))
			out = append(out, strconv.FormatFloat(v, 'g', 4, 64))
		}
		return out
	}
	return nil
}

// describe lists the options of a struct, in the order of its fields.
func describe(t reflect.Type, index ...int) []Option {
	var out []Option
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		tag := f.Tag
		switch {
		case f.Anonymous:
			out = append(out, describe(f.Type, at...)...)
		case tag.Get("opt") != "":
			kind := f.Type.Kind().String()
			if tag.Get("enum") != "" {
				kind = "enum"
			}
			value, fixed := tag.Lookup("fixed")
			if !fixed {
				value = tag.Get("default")
			}
			out = append(out, Option{
				Name: tag.Get("opt"), Alias: tag.Get("alias"), Type: kind,
				Default: value, fixed: fixed, blank: f.Name == "_", Range: tag.Get("range"), Enum: tag.Get("enum"), Auto: tag.Get("auto"),
				Tune: tag.Get("tune"), Paper: tag.Get("paper"), Doc: tag.Get("doc"), field: at,
			})
		}
	}
	return out
}

// rename replaces aliases in given with names. Hyphens count as underscores.
func rename(docs []Option, given map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		own := strings.ReplaceAll(name, "-", "_")
		for _, d := range docs {
			if own == d.Alias {
				own = d.Name
			}
		}
		if _, twice := out[own]; twice {
			return nil, fmt.Errorf("option %s is given twice, under two names", own)
		}
		out[own] = given[name]
	}
	return out, nil
}

// setOptions sets the struct that o points to, whose options are docs, to their
// defaults overridden by given. The error names option, value and bound.
func setOptions(o any, docs []Option, given map[string]string) error {
	v := reflect.ValueOf(o).Elem()
	var names, public []string
	for _, d := range docs {
		if names = append(names, d.Name); !d.fixed {
			public = append(public, d.Name)
		}
		text, ok := given[d.Name]
		if !ok {
			text = d.Default
		}
		if d.blank {
			if text != d.Default {
				return fmt.Errorf("option %s = %q: it is %s now", d.Name, text, d.Default)
			}
			continue
		}
		if err := d.set(v.FieldByIndex(d.field), strings.TrimSpace(text)); err != nil {
			return fmt.Errorf("option %s = %q: %w", d.Name, text, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no option %q%s", name, spell.DidYouMean(name, public))
		}
	}
	return nil
}

func (d Option) set(f reflect.Value, text string) error {
	if d.Auto != "" && text == "auto" {
		if f.Kind() == reflect.Float64 {
			f.SetFloat(math.NaN())
		} else {
			f.SetZero()
		}
		return nil
	}
	var num float64
	switch f.Kind() {
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) {
			return fmt.Errorf("not a number%s", d.orAuto())
		}
		f.SetFloat(x)
		num = x
	case reflect.Int:
		x, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("not an integer%s", d.orAuto())
		}
		f.SetInt(int64(x))
		num = float64(x)
	case reflect.Uint64:
		x, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("not a non-negative integer")
		}
		f.SetUint(x)
		num = float64(x)
	case reflect.Bool:
		x, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("not true or false")
		}
		f.SetBool(x)
		return nil
	case reflect.String:
		if d.Enum != "" {
			for v := range strings.SplitSeq(d.Enum, ",") {
				if v == text {
					f.SetString(text)
					return nil
				}
			}
			return fmt.Errorf("not one of %s", d.Enum)
		}
		f.SetString(text)
		return nil
	default:
		return fmt.Errorf("unsupported type %s", f.Kind())
	}
	if d.Range != "" && !inRange(d.Range, num) {
		return fmt.Errorf("outside %s", d.Range)
	}
	return nil
}

func (d Option) orAuto() string {
	if d.Auto != "" {
		return ` or "auto"`
	}
	return ""
}

// inRange reports whether x lies in an interval such as "(0,1]" or "[2,inf)".
func inRange(interval string, x float64) bool {
	body := interval[1 : len(interval)-1]
	lo, hi, ok := strings.Cut(body, ",")
	if !ok {
		return false
	}
	a, err1 := strconv.ParseFloat(strings.TrimSpace(lo), 64)
	b, err2 := strconv.ParseFloat(strings.TrimSpace(hi), 64)
	if err1 != nil || err2 != nil {
		return false
	}
	aboveLo := x > a || x == a && interval[0] == '['
	belowHi := x < b || x == b && interval[len(interval)-1] == ']'
	return aboveLo && belowHi
}
