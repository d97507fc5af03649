package algos_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/streamsvm/streamsvm/algos"
)

type inner struct {
	_    struct{} `group:"paper"`
	Eta1 float64  `opt:"eta_1" default:"2" doc:"of a struct that is embedded"`
}

type options struct {
	inner
	Rate   float64 `opt:"rate" alias:"step_size" default:"0.5" range:"(0,1]" tune:"log 0.001 1" paper:"eq 1" doc:"step size"`
	Width  float64 `opt:"width" default:"auto" range:"(0,inf)" auto:"from the data" doc:"kernel width"`
	Size   int     `opt:"size" default:"auto" range:"[2,100]" auto:"all" doc:"sample size"`
	Seed   uint64  `opt:"seed" default:"7" range:"[0,1e6)" doc:"seed"`
	Shift  float64 `opt:"shift" default:"0" range:"(-inf,inf)" doc:"any number"`
	Fast   bool    `opt:"fast" default:"true" doc:"hurry"`
	Loss   string  `opt:"loss" default:"hinge" enum:"hinge,squared" tune:"list squared hinge" doc:"loss"`
	Label  string  `opt:"label" default:"" doc:"any text"`
	hidden int
}

var errLoss = errors.New("squared needs rate below 1")

// spec defines a learner whose New hands its options out.
func spec(got *options, env *Env) Spec {
	return Define(SpecInfo{
		Name: "demo", Summary: "s", Gone: map[string]string{"haste": "see fast"}, Presets: map[string]map[string]string{"quick": {"rate": "1", "fast": "true"}},
	}, func(o *options) error {
		if o.Loss == "squared" && o.Rate == 1 {
			return errLoss
		}
		return nil
	}, func(e Env, o options) (Learner, error) {
		*got, *env = o, e
		return nil, nil
	}, nil)
}

func TestDefaults(t *testing.T) {
	var o options
	var env Env
	s := spec(&o, &env)
	if _, err := s.New(Env{Seed: 3}, nil); err != nil {
		t.Fatal(err)
	}
	if o.Rate != .5 || !math.IsNaN(o.Width) || o.Size != 0 || o.Seed != 7 || o.Shift != 0 || !o.Fast || o.Loss != "hinge" || o.Label != "" || o.hidden != 0 {
		t.Errorf("defaults %+v", o)
	}
	if env.Seed != 3 || env.Task != Classify || env.Log == nil {
		t.Errorf("environment %+v", env)
	}
	log := slog.New(slog.DiscardHandler)
	if _, err := s.New(Env{Task: Regress, Log: log}, nil); err != nil || env.Task != Regress || env.Log != log {
		t.Errorf("environment %+v, error %v", env, err)
	}
	if len(s.Options) != 9 || len(s.Tasks) != 1 || s.Tasks[0] != Classify {
		t.Errorf("%d options, tasks %v", len(s.Options), s.Tasks)
	}
	r := s.Options[1]
	if r.Name != "rate" || r.Type != "float64" || r.Default != "0.5" || r.Range != "(0,1]" || r.Paper != "eq 1" || r.Doc != "step size" || s.Options[7].Type != "enum" {
		t.Errorf("documentation %+v", r)
	}
}

func TestSet(t *testing.T) {
	var o options
	var env Env
	s := spec(&o, &env)
	for _, c := range []struct {
		name, value string
		got         func() any
		want        any // a string is part of the error
	}{
		{"rate", "1e-3", func() any { return o.Rate }, 1e-3},
		{"rate", " 1 ", func() any { return o.Rate }, 1.},
		{"rate", "0", nil, `option rate = "0": outside (0,1]`},
		{"rate", "1.0001", nil, "outside (0,1]"},
		{"rate", "NaN", nil, "not a number"},
		{"rate", "inf", nil, "outside (0,1]"},
		{"rate", "auto", nil, "not a number"},
		{"step_size", "0.125", func() any { return o.Rate }, .125},
		{"step-size", "2", nil, `option rate = "2": outside (0,1]`},
		{"eta-1", "3", func() any { return o.Eta1 }, 3.},
		{"haste", "1", nil, "option haste has been removed: see fast"},
		{"width", "auto", func() any { return math.IsNaN(o.Width) }, true},
		{"width", "automatic", nil, `not a number or "auto"`},
		{"width", "inf", nil, "outside (0,inf)"},
		{"size", "2", func() any { return o.Size }, 2},
		{"size", "100", func() any { return o.Size }, 100},
		{"size", "auto", func() any { return o.Size }, 0},
		{"size", "1", nil, "outside [2,100]"},
		{"size", "2.5", nil, `not an integer or "auto"`},
		{"size", "101", nil, "outside [2,100]"},
		{"seed", "999999", func() any { return o.Seed }, uint64(999999)},
		{"seed", "1000000", nil, "outside [0,1e6)"},
		{"seed", "-1", nil, "not a non-negative integer"},
		{"shift", "-1e300", func() any { return o.Shift }, -1e300},
		{"shift", "-inf", nil, "outside (-inf,inf)"},
		{"fast", "false", func() any { return o.Fast }, false},
		{"fast", "yes", nil, "not true or false"},
		{"loss", "squared", func() any { return o.Loss }, "squared"},
		{"loss", "log", nil, "not one of hinge,squared"},
		{"label", "a b", func() any { return o.Label }, "a b"},
		{"rat", "1", nil, `no option "rat"; did you mean "rate"?`},
		{"sise", "1", nil, `did you mean "size"?`},
		{"frobnicate", "1", nil, `no option "frobnicate"`},
		{"hidden", "1", nil, `no option "hidden"`},
	} {
		_, err := s.New(Env{}, map[string]string{c.name: c.value})
		if c.got == nil {
			if err == nil || !strings.Contains(err.Error(), c.want.(string)) || !strings.Contains(err.Error(), "learner demo") {
				t.Errorf("%s = %s: want an error with %q, got %v", c.name, c.value, c.want, err)
			}
			if check := s.Check(map[string]string{c.name: c.value}); fmt.Sprint(check) != fmt.Sprint(err) {
				t.Errorf("%s = %s: New says %v, Check says %v", c.name, c.value, err, check)
			}
			continue
		}
		if err != nil || c.got() != c.want {
			t.Errorf("%s = %s: got %v, want %v, error %v", c.name, c.value, c.got(), c.want, err)
		}
	}
	if err := s.Check(map[string]string{"loss": "squared", "rate": "1"}); !errors.Is(err, errLoss) {
		t.Errorf("validate was not asked: %v", err)
	}
}

// TestFixed: a fixed option has its value, presets may give it another, and users
// cannot set it.
func TestFixed(t *testing.T) {
	type more struct {
		A int `opt:"a" default:"1" range:"[0,9]" doc:"a"`
		B int `opt:"b" alias:"bee" fixed:"2" range:"[0,9]"`

		_ struct{} `opt:"gone" fixed:"7"`
	}
	var got more
	s := Define(SpecInfo{Name: "demo", Presets: map[string]map[string]string{"paper": {"b": "3"}}}, nil,
		func(_ Env, o more) (Learner, error) { got = o; return nil, nil }, nil)
	if len(s.Options) != 1 || s.Options[0].Name != "a" {
		t.Errorf("the documented options are %v, want a alone", s.Options)
	}
	for preset, want := range map[string]int{"": 2, "default": 2, "paper": 3} {
		options, err := s.WithPreset(preset, map[string]string{"a": "5"})
		if err == nil {
			_, err = s.New(Env{}, options)
		}
		if err != nil || got.A != 5 || got.B != want {
			t.Errorf("preset %q: a = %d, b = %d, error %v; want 5 and %d", preset, got.A, got.B, err, want)
		}
		for _, name := range []string{"b", "bee"} {
			err := s.Settable(preset, map[string]string{"a": "1", name: "4"})
			if want := fmt.Sprintf("option "+name+" can no longer be set: it is %d now", want); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("preset %q, %s = 4: got %v, want %q", preset, name, err, want)
			}
			if v, ok := s.Fixed(preset, name); v != fmt.Sprint(want) || !ok {
				t.Errorf("preset %q: Fixed(%s) = %q, %v", preset, name, v, ok)
			}
		}
	}
	if err := s.Check(map[string]string{"gone": "7"}); err != nil {
		t.Errorf("an option that is gone, with its constant: %v", err)
	}
	if err := s.Check(map[string]string{"gone": "8"}); err == nil || !strings.Contains(err.Error(), "it is 7 now") {
		t.Errorf("an option that is gone, with another value: %v", err)
	}
	if _, ok := s.Fixed("", "a"); ok || s.Settable("", map[string]string{"a": "1"}) != nil {
		t.Error("a is fixed")
	}
	if err := s.Check(map[string]string{"bb": "1"}); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("an unknown option: %v; want no advice to set a fixed one", err)
	}
}

func TestPresets(t *testing.T) {
	var o options
	var env Env
	s := spec(&o, &env)
	given := map[string]string{"rate": "0.25"}
	all, err := s.WithPreset("quick", given)
	if err != nil || all["rate"] != "0.25" || all["fast"] != "true" || len(given) != 1 || s.Presets["quick"]["rate"] != "1" {
		t.Errorf("%v, error %v", all, err)
	}
	if all, err := s.WithPreset("quick", map[string]string{"step_size": "0.25"}); err != nil || all["rate"] != "0.25" || len(all) != 2 {
		t.Errorf("an alias over a preset: %v, %v", all, err)
	}
	if _, err := s.WithPreset("quick", map[string]string{"step_size": "0.25", "rate": "0.5"}); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("an option under both of its names: %v", err)
	}
	for _, name := range []string{"", "default", "paper"} {
		if all, err := s.WithPreset(name, nil); err != nil || len(all) != 0 {
			t.Errorf("preset %q: %v, %v", name, all, err)
		}
	}
	if _, err := s.WithPreset("slow", nil); err == nil || !strings.Contains(err.Error(), `no preset "slow"`) {
		t.Errorf("an unknown preset: %v", err)
	}
	if _, err := s.WithPreset("quick", map[string]string{"loss": "squared"}); !errors.Is(err, errLoss) {
		t.Errorf("a preset that does not fit: %v", err)
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		tune string
		n    int
		want []string
	}{
		{"log 0.001 1000", 7, []string{"0.001", "0.01", "0.1", "1", "10", "100", "1000"}},
		{"log 0.25 4", 1, []string{"1"}},
		{"log 0.5 2", 2, []string{"0.5", "2"}},
		{"list b a", 5, []string{"b", "a"}},
		{"", 5, nil},
		{"log 1", 5, nil},
		{"log a b", 5, nil},
		{"log 1 2", 0, nil},
		{"linear 1 2", 5, nil},
	} {
		if got := (Option{Tune: c.tune}).Candidates(c.n); !slices.Equal(got, c.want) {
			t.Errorf("%q, %d: %v, want %v", c.tune, c.n, got, c.want)
		}
	}
}

// forms has other forms; plain has none.
type (
	plain struct{ Model }
	forms struct{ Model }
)

func (forms) Compile() Model { return plain{} }
func (forms) Pack() Model    { return nil }

func TestFormsOfModels(t *testing.T) {
	if Compiled(forms{}) != (plain{}) || Packed(forms{}) != nil || Compiled(plain{}) != (plain{}) || Packed(plain{}) != (plain{}) {
		t.Error("not the form that the model has")
	}
}
