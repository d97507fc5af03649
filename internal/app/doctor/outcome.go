package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// outcome is what came of reading records.
type outcome struct {
	live, bad, unlabelled int
	first                 string // the first error, and where
	reasons               map[stream.Reason]int
	// lost is a class of which too many records cannot be read.
	lost string
}

// try reads all records with the settings found, as train would.
func (s *study) try() {
	format := s.format
	format.Task = string(s.task)
	dec, err := codec.New(s.codec, format)
	if err != nil {
		s.unsupported(err.Error(), "")
		return
	}
	exs, errs := make([]stream.Example, len(s.recs)), make([]error, len(s.recs))
	dims := map[int]int{}
	for i := range s.recs {
		if errs[i] = dec.Decode(s.recs[i].Value, &exs[i]); errs[i] == nil && !exs[i].X.Sparse() {
			dims[len(exs[i].X.Val)]++
		}
	}
	// The first record says how many features a stream has.
	common := 0
	for n, k := range dims {
		if k > dims[common] || k == dims[common] && n < common {
			common = n
		}
	}
	if at := s.odd(exs, errs, common); at >= 0 || !few(sum(dims)-dims[common], len(s.recs)) {
		text := "the numbers of features differ, " + dimensions(dims)
		if at >= 0 {
			r := &s.recs[at]
			text += fmt.Sprintf("; a stream has as many as its first record, and %s/%d offset %d has %d", r.Topic, r.Partition, r.Offset, len(exs[at].X.Val))
		}
		s.unsupported(text, s.sparse(common, dims))
		return
	}
	o := &outcome{reasons: map[stream.Reason]int{}}
	classes := map[label][2]int{} // how many cannot be read, and all
	for i := range s.recs {
		r, ex, err := &s.recs[i], &exs[i], errs[i]
		if r.Value == nil && (s.SkipTombstones || s.change["tombstones"] != "") {
			continue
		}
		o.live++
		class := classes[s.of[i]]
		class[1]++
		switch {
		case err != nil:
		case !ex.X.Sparse() && len(ex.X.Val) != common:
			err = &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonDimension, Field: "x", Err: fmt.Errorf("%d features where the stream has %d", len(ex.X.Val), common)}
		case slices.ContainsFunc(ex.X.Val, func(v float32) bool { return v >= algos.TooLarge || v <= -algos.TooLarge }):
			err = &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonNotFinite, Field: "x", Err: fmt.Errorf("a feature is not below %g", algos.TooLarge)}
		case !ex.Labelled:
			o.unlabelled++
		}
		if err != nil {
			class[0]++
			if o.bad++; o.bad == 1 {
				o.first = fmt.Sprintf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
			}
			var field *stream.FieldError
			if errors.As(err, &field) {
				o.reasons[field.Reason]++
			}
		}
		classes[s.of[i]] = class
	}
	if n := o.reasons[stream.ReasonIndex]; n > 0 && (s.codec == "libsvm" || s.codec == "json") {
		s.unsupported(fmt.Sprintf("%s have a feature 0, so features are numbered from 0, and codec %s numbers them from 1: %s", s.share(n), s.codec, o.first), s.renumber())
		return
	}
	for _, l := range s.labels.sorted() {
		if n := classes[l]; s.task != algos.Regress && n[0]*5 > n[1] {
			o.lost = l.text
		}
	}
	s.report(o)
}

func sum(n map[int]int) (all int) {
	for _, k := range n {
		all += k
	}
	return all
}

// dimensions lists numbers of features, and how many records have them.
func dimensions(dims map[int]int) string {
	var list []string
	for _, n := range slices.Sorted(maps.Keys(dims)) {
		list = append(list, fmt.Sprintf("%d (%d)", n, dims[n]))
	}
	return strings.Join(list[:min(len(list), 6)], ", ")
}

// odd returns the first record that train would begin a partition with if it
// has not as many features as most have, or -1.
func (s *study) odd(exs []stream.Example, errs []error, common int) int {
	seen := map[stream.Partition]bool{}
	for i := range s.recs {
		p := stream.Partition{Topic: s.recs[i].Topic, ID: s.recs[i].Partition}
		if !s.fresh || seen[p] || errs[i] != nil || exs[i].X.Sparse() {
			continue
		}
		seen[p] = true
		if len(exs[i].X.Val) != common {
			return i
		}
	}
	return -1
}

// report says how many records are read by the settings found, and what has to
// be set.
func (s *study) report(o *outcome) {
	const subject = "records"
	if o.bad == 0 && len(s.change) == 0 {
		text := fmt.Sprintf("the first %d can be read as %s", len(s.recs), s.codec)
		if o.unlabelled > 0 && s.Labels == "" {
			text += fmt.Sprintf("; %d have no label", o.unlabelled)
		}
		s.ok(subject, "%s", text)
		return
	}
	present, first := s.present()
	switch {
	case o.bad > 0 && !few(o.bad, o.live):
		s.unsupported(fmt.Sprintf("%d of the first %d cannot be read as %s: %s", o.bad, len(s.recs), s.codec, o.first), s.mend(o.reasons))
		return
	case o.bad > 0 && o.lost != "":
		s.unsupported(fmt.Sprintf("%d of the first %d cannot be read as %s, and they are too many of the class %s to be left out: %s", o.bad, len(s.recs), s.codec, o.lost, o.first), s.mend(o.reasons))
		return
	case o.bad > 0 && !s.Tolerant:
		s.change["tolerance"] = "data"
		if s.DeadLetters == "" {
			s.change["dlq"] = ".dlq"
		}
		s.notes = append(s.notes, fmt.Sprintf("%d of %d records then become dead letters: %s", o.bad, o.live, o.first))
	}
	if len(s.change) == 0 { // tolerated
		s.warn(subject, fmt.Sprintf("%d of the first %d cannot be read as %s: %s", o.bad, len(s.recs), s.codec, o.first), "")
		return
	}
	text := fmt.Sprintf("the first %d can be read as %s, but not learned from as they are meant", len(s.recs), s.Codec)
	switch {
	case present == len(s.recs):
		text = fmt.Sprintf("none of the first %d can be read as %s: %s", present, s.Codec, first)
	case present > 0:
		text = fmt.Sprintf("%d of the first %d cannot be read as %s: %s", present, len(s.recs), s.Codec, first)
	case s.change["tolerance"] != "":
		text = fmt.Sprintf("%d of the first %d cannot be learned from: %s", o.bad, len(s.recs), o.first)
	}
	s.fail(cli.Data, subject, text, strings.Join(append([]string{s.Train(s.change)}, s.notes...), "\n"))
}

// present reads the records with the settings that hold, and returns how many
// cannot be read, and why the first.
func (s *study) present() (bad int, first string) {
	format := s.Format
	format.Task, format.Events, format.Label = string(s.Learner.Task), "", ""
	if format.Labels == codec.Auto {
		format.Labels = s.format.Labels
	}
	dec, err := codec.New(s.Codec, format)
	if err != nil {
		return 0, "" // among the settings' findings
	}
	var ex stream.Example
	for i := range s.recs {
		r := &s.recs[i]
		if r.Value == nil && s.SkipTombstones {
			continue
		}
		if err := dec.Decode(r.Value, &ex); err != nil {
			if bad++; bad == 1 {
				first = fmt.Sprintf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
			}
		}
	}
	return bad, first
}
