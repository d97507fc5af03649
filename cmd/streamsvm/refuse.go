package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/trainer"
)

// refuseFlags say how many records may be unusable, and whether records without a
// value are.
type refuseFlags struct {
	maxDead    float64
	tombstones string

	refused map[string]uint64 // how often labels were refused
}

func (o *refuseFlags) define(f *cli.Flags) {
	f.Group("Input", func() {
		f.Float64Var(&o.maxDead, "max-dead", engine.DefaultMaxDead, "with --tolerance, stop when more than this `FRACTION` of the last 1000 records cannot be used; 1 never does")
		defineTombstones(f, &o.tombstones)
	})
	f.Check(func(c *cli.Call) []error { return []error{o.check(c)} })
}

func defineTombstones(f *cli.Flags, v *string) {
	f.Choice(v, "tombstones", string(trainer.TombstonesRefuse), []string{string(trainer.TombstonesRefuse), string(trainer.TombstonesSkip)},
		"records without a value: like others that cannot be used, or skip and count them")
}

func (o *refuseFlags) check(c *cli.Call) error {
	if !(o.maxDead > 0 && o.maxDead <= 1) {
		return c.Bad("max-dead", fmt.Errorf("%v is not in (0,1]", o.maxDead))
	}
	return nil
}

// apply sets the fields of a job that the flags determine, and forgets refused labels.
func (o *refuseFlags) apply(c *cli.Call, job *trainer.Job) error {
	o.refused = map[string]uint64{}
	job.MaxDead, job.Tombstones = o.maxDead, trainer.Tombstones(o.tombstones)
	return o.check(c)
}

// Dead implements trainer.HookDead.
func (o *refuseFlags) Dead(why *stream.RecordError) {
	const most = 16
	if bad := (*codec.LabelError)(nil); errors.As(why, &bad) && (len(o.refused) < most || o.refused[bad.Label] > 0) {
		o.refused[bad.Label]++
	}
}

// explain adds advice to an error about a stream that does not match the flags. It
// returns other errors, and nil, as they are. doctor is the command that examines the
// records, "" if there is none; again says what is needed besides a changed flag to
// read the stream from its beginning.
func (o *refuseFlags) explain(err error, co *codecFlags, doctor, again string) error {
	var dead *stream.DeadError
	var one *stream.OneLabelError
	var record *stream.RecordError
	var do string
	switch {
	case errors.As(err, &dead):
		if bad := (*codec.LabelError)(nil); dead.Example != nil && errors.As(dead.Example, &bad) {
			do = o.convention(co, again, bad.Label)
		}
		if do == "" && doctor != "" {
			do = "; see what they are with " + doctor
		} else if do == "" {
			do = "; is --codec right?"
		}
		do = fmt.Sprintf(": more than --max-dead %v allows%s", o.maxDead, do)
	case errors.As(err, &one):
		do = o.missing(one, co, again)
	case !errors.As(err, &record):
		return err
	case record.Offset > 0:
		do = "; --tolerance data skips such records"
		if record.Reason == stream.ReasonEmpty && record.Field == "" {
			do += ", --tombstones skip those without a value"
		}
		if record.Stage == stream.StageFeature && (record.Reason == stream.ReasonType || co.label != "" && record.Reason == stream.ReasonNotFinite) {
			do += "; invalid: missing in a file for --events takes such values as missing"
		}
	case doctor != "":
		do = "; see what can be read with " + doctor
	default:
		do = "; is --codec right?"
	}
	return cli.Failf(cli.Data, "%w%s", err, do)
}

// missing says why labels may be missing.
func (o *refuseFlags) missing(one *stream.OneLabelError, co *codecFlags, again string) string {
	switch {
	case one.Labelled == 0 && co.name == "csv":
		return "; --label-column says where labels are"
	case one.Labelled == 0:
		return "; labels that come later are joined with --join FIELD, from a topic of their own with --labels-topic TOPIC"
	case one.Regress:
		return ""
	}
	if classes, err := codec.ParseClasses(co.labels); err == nil && len(classes) > 2 {
		return ""
	}
	only := labelWords(co.labels)[0]
	if one.Label > 0 {
		only = labelWords(co.labels)[1]
	}
	var b strings.Builder
	if co.labels != "pm1" && co.labels != codec.Auto {
		fmt.Fprintf(&b, "; with --labels %s, label %+g is %s in the records", co.labels, one.Label, only)
	}
	for _, y := range slices.Sorted(maps.Keys(o.refused)) {
		fmt.Fprintf(&b, "; label %s was refused %d times", y, o.refused[y])
	}
	if one.Examples > one.Labelled {
		b.WriteString("; with --join, --missing-label says what examples are whose label does not come")
	}
	return b.String() + o.convention(co, again, only)
}

// convention says which flag could read the labels seen and the labels refused; ""
// if none could.
func (o *refuseFlags) convention(co *codecFlags, again string, seen ...string) string {
	given := slices.Sorted(maps.Keys(o.refused))
	given = slices.Compact(slices.Sorted(slices.Values(append(given, seen...))))
	var list []string
	for _, name := range []string{"pm1", "01", "12"} {
		pair := labelWords(name)
		if name != co.labels && !slices.ContainsFunc(given, func(y string) bool { return y != pair[0] && y != pair[1] }) {
			list = append(list, fmt.Sprintf("if the labels are %s and %s, type --labels %s", pair[0], pair[1], name))
		}
	}
	if len(list) == 0 && len(given) == 2 {
		list = append(list, fmt.Sprintf("if the labels are %s and %s, type --labels %s,%s or %s,%s, the negative one first", given[0], given[1], given[0], given[1], given[1], given[0]))
	}
	if len(list) == 0 {
		return ""
	}
	return "; " + strings.Join(list, ", or ") + again
}

// labelWords returns what --labels calls the two labels in the records.
func labelWords(labels string) [2]string {
	list, err := codec.ParseClasses(labels)
	if err != nil || len(list) != 2 {
		return [2]string{"-1", "1"} // the flag has been refused
	}
	return [2]string{fmt.Sprint(list[0]), fmt.Sprint(list[1])}
}
