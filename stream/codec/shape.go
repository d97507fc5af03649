package codec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/events"
)

// usual lists the field names that are taken for the label by default.
var usual = []string{"y", "label", "target", "class", "outcome"}

// shape returns the sample of events without their envelope, if any, the specification
// with root, label and id set, and how often each field occurred.
func (d *Discovery) shape() ([][]events.NamedCell, events.Spec, map[string]int) {
	spec, sample := d.spec, d.events
	found := map[string]int{}
	for _, e := range sample {
		for i := range e {
			found[e[i].Name]++
		}
	}
	if spec.Root == "" {
		spec.Root = root(found)
	}
	if spec.Root != "" {
		sample = make([][]events.NamedCell, len(d.events))
		clear(found)
		for k, e := range d.events {
			for i := range e {
				if name, ok := strings.CutPrefix(e[i].Name, spec.Root+"."); ok {
					n := e[i]
					n.Name = name
					sample[k] = append(sample[k], n)
					found[name]++
				}
			}
		}
	}
	if spec.Label == "" && found[csvLabel] > 0 {
		spec.Label = csvLabel
	}
	for _, name := range usual {
		if spec.Label == "" && found[name] > 0 && d.name != "csv" {
			spec.Label = name
		}
	}
	if spec.ID == "" && found["id"] > 0 && spec.Features["id"].Type == "" {
		spec.ID = "id"
	}
	return sample, spec, found
}

// infer returns the schema of the events.
func (d *Discovery) infer() (*events.Schema, error) {
	sample, spec, found := d.shape()
	if (spec.Label == "" || found[spec.Label] == 0) && !d.o.Unlabelled {
		return nil, d.noLabel(spec.Label, sample)
	}
	if d.o.ID != "" && found[d.o.ID] == 0 {
		fields := slices.Sorted(maps.Keys(found))
		return nil, fmt.Errorf("the events have no field %s to join by; they have %s", d.o.ID, strings.Join(fields[:min(len(fields), 12)], ", "))
	}
	d.count()
	if d.o.LaterLabels {
		sample = slices.DeleteFunc(slices.Clone(sample), func(e []events.NamedCell) bool {
			return slices.ContainsFunc(e, func(c events.NamedCell) bool { return c.Name == spec.Label && c.Cell.Kind > events.Null })
		})
		if len(sample) == 0 {
			return nil, fmt.Errorf("each of the first %d records has a label: without --join they are learned from as they come", d.records)
		}
	}
	s, err := events.Infer(sample, spec)
	if err == nil && s.Label == csvLabel {
		s.Label = ""
	}
	return s, err
}

// root returns the path of the event in an envelope of Debezium, Kafka Connect with schemas
// or CloudEvents, which it recognizes by their fields; empty if there is none.
func root(found map[string]int) string {
	has := func(prefix string) bool {
		for name := range found {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	}
	for _, p := range []string{"payload.", ""} {
		if (p == "" || has("schema.") || has(p+"after.")) && found[p+"op"] > 0 && (has(p+"after.") || has(p+"source.")) {
			return p + "after"
		}
	}
	switch {
	case has("schema.") && has("payload."):
		return "payload"
	case found["specversion"] > 0 && has("data."):
		return "data"
	}
	return ""
}

// candidates returns the fields that might be the label, those with the fewest values
// first, and how often each value occurred.
func candidates(sample [][]events.NamedCell) (fields []string, values map[string]map[string]int) {
	values = map[string]map[string]int{}
	for _, e := range sample {
		for i := range e {
			c := &e[i].Cell
			if c.Kind != events.Text && c.Kind != events.Bool && c.Kind != events.Number || e[i].Name == csvLabel {
				continue
			}
			m := values[e[i].Name]
			if m == nil {
				m = map[string]int{}
				values[e[i].Name] = m
			}
			if len(m) <= 20 {
				m[cellText(c)]++
			}
		}
	}
	for field, m := range values {
		if len(m) >= 2 && len(m) <= 20 {
			fields = append(fields, field)
		}
	}
	slices.SortFunc(fields, func(a, b string) int {
		return cmp.Or(len(values[a])-len(values[b]), strings.Compare(a, b))
	})
	return fields, values
}

// LabelField returns the field with exactly two values if it is the only such field, and
// so is likely to be the label; otherwise "".
func (d *Discovery) LabelField() string {
	sample, _, _ := d.shape()
	fields, values := candidates(sample)
	if len(fields) == 0 || len(values[fields[0]]) != 2 || len(fields) > 1 && len(values[fields[1]]) == 2 {
		return ""
	}
	return fields[0]
}

// noLabel returns the error for a missing label. It suggests fields.
func (d *Discovery) noLabel(name string, sample [][]events.NamedCell) error {
	fields, values := candidates(sample)
	var list []string
	for _, field := range fields[:min(len(fields), 6)] {
		words := slices.Sorted(maps.Keys(values[field]))
		if len(words) > 3 {
			words = append(words[:3], "...")
		}
		list = append(list, fmt.Sprintf("%s (%s)", field, strings.Join(words, ", ")))
	}
	what := "no field y, label or target in the events tells what to predict"
	if d.name == "csv" {
		if c := d.o.CSV.LabelColumn; c != "" && len(sample) > 0 {
			return fmt.Errorf("there is no column %s to predict, rows have %d: see whether --csv-separator is right", c, len(sample[0]))
		}
		what = "no column y, label or target tells what to predict"
	}
	if name != "" {
		what = fmt.Sprintf("the events have no field %s to predict", name)
	}
	if list == nil {
		return errors.New(what + ": name it with --label")
	}
	return fmt.Errorf("%s: name it with --label; fields with few values are %s", what, strings.Join(list, ", "))
}

func cellText(c *events.Cell) string {
	switch c.Kind {
	case events.Text:
		return string(c.Text)
	case events.Bool:
		return strconv.FormatBool(c.Num != 0)
	}
	return strconv.FormatFloat(c.Num, 'g', -1, 64)
}
