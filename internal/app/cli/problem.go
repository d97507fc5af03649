package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Problem is one error in the settings.
type Problem struct {
	// Origin says where it is.
	Origin Origin
	// Key is the setting concerned, or the text in its place; empty if the problem
	// concerns the file as a whole.
	Key string
	// Text says what is wrong and names the nearest valid value, if there is one.
	Text string
	// Nearest is the setting that an unknown one probably stands for.
	Nearest string
}

func problem(o Origin, key, format string, args ...any) *Problem {
	return &Problem{Origin: o, Key: key, Text: fmt.Sprintf(format, args...)}
}

func (p *Problem) Error() string {
	if p.Origin.Name == "" {
		return p.Text
	}
	return p.Origin.String() + ": " + p.Text
}

// collect turns err into a Problem.
func collect(err error, o Origin, key string) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return problem(o, key, "%v", err)
}

// plain says what the invalid value v should look like.
func plain(f *pflag.Flag, v string, err error) error {
	switch t := f.Value.Type(); {
	case t == "bool":
		return errors.New("want true or false")
	case t == "duration":
		if _, e := strconv.ParseFloat(v, 64); e == nil {
			return fmt.Errorf("the unit is missing; did you mean %q?", v+"s")
		}
		hint := ""
		if s := strings.ReplaceAll(v, " ", ""); s != v {
			if _, e := time.ParseDuration(s); e == nil {
				hint = fmt.Sprintf("; did you mean %q?", s)
			}
		}
		return fmt.Errorf("want a time with its unit, such as 500ms, 10s or 1h30m%s", hint)
	case t == "int32Slice":
		return errors.New("want a list of integers")
	case strings.HasPrefix(t, "uint"):
		return errors.New("want a whole number that is not negative" + plainNumber(v))
	case strings.HasPrefix(t, "int"):
		return errors.New("want a whole number" + plainNumber(v))
	case strings.HasPrefix(t, "float"):
		return errors.New("want a number")
	}
	if i := strings.LastIndex(err.Error(), "invalid syntax"); i >= 0 {
		return errors.New("cannot be read as a value of this type")
	}
	return err
}

var withUnit = regexp.MustCompile(`(?i)^([0-9]+) ?([kmg])(i?)b?$`)

// plainNumber suggests the number for a size such as 900KiB.
func plainNumber(v string) string {
	m := withUnit.FindStringSubmatch(v)
	if m == nil {
		return ""
	}
	n, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return ""
	}
	base := int64(1000)
	if m[3] != "" {
		base = 1024
	}
	for range strings.Index("kmg", strings.ToLower(m[2])) + 1 {
		n *= base
	}
	return fmt.Sprintf("; did you mean %d?", n)
}
