package algos

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Option documents one option of a learner. It is read off the tags of a field
// of the learner's options struct:
//
//	Lambda float64 `opt:"lambda" default:"1" range:"(0,inf)" tune:"log 1e-6 1" paper:"eq 1" doc:"ridge weight"`
//
// A field is a float64, int, uint64, bool or string. range is an interval with
// ( or ) for an open and [ or ] for a closed end; enum lists the values a
// string may take, parted by commas; auto:"…" says that the value may be
// "auto" and what that means, and stores it as NaN (float64) or 0 (int). tune
// gives the candidates of the automatic tuner: "log LO HI" or "list A B C".
// Fields of an embedded struct count as its own.
type Option struct {
	Name, Type, Default, Range, Enum, Auto, Tune, Paper, Doc string
	field                                                    []int
}

// Candidates returns the tuner's candidates for the option, n of them where it
// is tuned over a range, or nil if it is not tuned.
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

// describe lists the options of the struct that o points to.
func describe(o any) []Option {
	var out []Option
	for _, f := range reflect.VisibleFields(reflect.TypeOf(o).Elem()) {
		tag := f.Tag
		name, ok := tag.Lookup("opt")
		if !ok {
			continue
		}
		kind := f.Type.Kind().String()
		if tag.Get("enum") != "" {
			kind = "enum"
		}
		out = append(out, Option{
			Name: name, Type: kind, Default: tag.Get("default"), Range: tag.Get("range"),
			Enum: tag.Get("enum"), Auto: tag.Get("auto"), Tune: tag.Get("tune"),
			Paper: tag.Get("paper"), Doc: tag.Get("doc"), field: f.Index,
		})
	}
	return out
}

// setOptions sets the struct that o points to from its defaults and from
// given. The error names option, value and bound.
func setOptions(o any, given map[string]string) error {
	docs := describe(o)
	v := reflect.ValueOf(o).Elem()
	known := map[string]bool{}
	for _, d := range docs {
		known[d.Name] = true
		text, ok := given[d.Name]
		if !ok {
			text = d.Default
		}
		if err := d.set(v.FieldByIndex(d.field), strings.TrimSpace(text)); err != nil {
			return fmt.Errorf("option %s = %q: %w", d.Name, text, err)
		}
	}
	for name := range given {
		if !known[name] {
			var names []string
			for _, d := range docs {
				names = append(names, d.Name)
			}
			return fmt.Errorf("no option %q%s", name, spell.DidYouMean(name, names))
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
