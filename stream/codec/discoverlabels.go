package codec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	mp "github.com/vmihailenco/msgpack/v5"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// LookLabel is LookRecord for a record of a topic of labels.
func (d *Discovery) LookLabel(ctx context.Context, rec *stream.Record) (enough bool, err error) {
	err = d.apart.read(ctx, rec, func(c *events.Cell, field, id string) error {
		if field == "" {
			aloneLabel(c)
		}
		if d.first == nil {
			d.first = rec.Value
		}
		if c.Kind > events.Null {
			d.labelled++
		}
		if id != "" {
			d.labelIDs++
		}
		d.labels.add(c)
		return nil
	})
	var bad *stream.FieldError
	if err != nil && !errors.As(err, &bad) {
		return false, err
	}
	return d.enough(), nil
}

// checkApart returns an error if labels come in a separate topic and cannot be found
// there.
func (d *Discovery) checkApart() error {
	if !d.o.Unlabelled {
		return nil
	}
	var fields []string
	if list, err := jsonFields(d.first); err == nil {
		for i := range list[:min(len(list), 8)] {
			fields = append(fields, list[i].Name)
		}
	}
	has := "its first record has the fields " + strings.Join(fields, ", ")
	switch {
	case d.first != nil && d.labelled == 0:
		return fmt.Errorf("no record of the topic of labels has a field %s: name the label with --labels-field; %s", cmp.Or(d.o.LabelsField, strings.Join(usual, ", ")), has)
	case d.first != nil && d.o.LabelsID != "" && d.labelIDs == 0:
		return fmt.Errorf("no record of the topic of labels has a field %s to join by: say what it is called there with --join FIELD=OTHER; %s", d.o.LabelsID, has)
	case d.o.Labels == Auto && d.o.Task != "regress" && !d.labels.any():
		return fmt.Errorf("no label has come with the first %d examples, so it is not known what the labels are: say so with --labels, such as --labels false,true", d.records)
	}
	return nil
}

// vectorLabel returns the label of a record of the codec libsvm or msgpack, absent if
// there is none, and the record, for libsvm with its label replaced by one that can
// always be read.
func vectorLabel(codec string, value []byte) (label events.Cell, rest []byte) {
	if codec == "libsvm" {
		text, features, _ := strings.Cut(strings.TrimLeft(string(trimLine(value)), " \t"), " ")
		if text == "" || strings.Contains(text, ":") {
			return label, value
		}
		label = events.Cell{Kind: events.Text, Text: []byte(text)}
		textLabel(&label)
		return label, []byte("0 " + features)
	}
	var m map[string]any
	if mp.Unmarshal(value, &m) != nil {
		return label, value
	}
	switch y := m["y"].(type) {
	case nil:
	case string:
		label = events.Cell{Kind: events.Text, Text: []byte(y)}
	case bool:
		label.Kind = events.Bool
		if y {
			label.Num = 1
		}
	default:
		if v, err := strconv.ParseFloat(fmt.Sprint(y), 64); err == nil {
			label = events.Cell{Kind: events.Number, Num: v}
		}
	}
	return label, value
}

// aloneLabel converts the text of a bare label to the value it stands for.
func aloneLabel(c *events.Cell) {
	var value events.Cell
	if p := (jsonText{b: c.Text}); readCell(&p, &value, "y", 1) == nil && p.i == len(p.b) {
		*c = value
	}
}

// textLabel converts a text to the number or boolean it stands for, if any.
func textLabel(c *events.Cell) {
	switch text := string(c.Text); text {
	case "true":
		c.Kind, c.Num = events.Bool, 1
	case "false":
		c.Kind, c.Num = events.Bool, 0
	default:
		if v, err := strconv.ParseFloat(text, 64); err == nil && v-v == 0 {
			c.Kind, c.Num = events.Number, v
		}
	}
}
