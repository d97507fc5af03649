package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// labelOf returns what a record has as its label.
func (s *study) labelOf(value []byte) label {
	switch s.codec {
	case "json":
		v, err := parseJSON(string(value))
		if m, ok := v.(map[string]any); ok && err == nil {
			return valueLabel(m["y"])
		}
	case "msgpack":
		return valueLabel(unpack(value)["y"])
	case "libsvm":
		first, _, _ := strings.Cut(strings.TrimSpace(string(value))+" ", " ")
		if !strings.Contains(first, ":") {
			return textLabel(first)
		}
	case "csv":
		if row := split(string(value), s.table.comma); s.table.label >= 0 && len(row) == s.table.columns {
			return textLabel(row[s.table.label])
		}
	}
	return noLabel
}

// readLabels finds out which labels there are, and what reads them.
func (s *study) readLabels() bool {
	for i := range s.labelRecs {
		s.labels.add(bareLabel(s.labelRecs[i].Value))
	}
	if n := len(s.labelRecs); n > 0 && !few(n-s.labels.total(), n) {
		s.unsupported(fmt.Sprintf("%d of %d records of the topic of labels, %s, are none: %s", n-s.labels.total(), n, s.Labels, shown(string(s.labelRecs[0].Value))),
			`write the labels as {"y":1}, with "id" where the record has no key, or alone`)
		return false
	}
	for i := range s.recs {
		s.of = append(s.of, s.labelOf(unframed(s.recs[i].Value)))
		s.labels.add(s.of[i])
	}
	if s.table != nil && s.table.label >= 0 {
		for _, h := range s.table.headers { // what stands there is a name
			delete(s.labels, textLabel(h[s.table.label]))
		}
	}
	switch {
	case len(s.labels) > 0:
		return s.tell(s.labels)
	case s.Labels == "":
		return s.noLabels()
	}
	return true // the topic of labels is empty, too
}

// textual reports whether the codec takes labels as text, be they numbers or
// words.
func (s *study) textual() bool { return s.codec == "csv" || s.codec == "libsvm" }

// tell says what reads the labels, all of which are given.
func (s *study) tell(all tally) bool {
	if s.task == algos.Regress {
		if all.has(word) || all.has(boolean) {
			s.unsupported("a regression needs labels that are numbers, without quotes: "+all.String(), "send them as numbers, or train a classification (--task classify)")
			return false
		}
		return true
	}
	if all.mixed() && !s.textual() {
		s.unsupported("the same labels are written in several ways: "+all.String(), s.sameLabels(all))
		return false
	}
	if len(all) > 2 && all.folded() == 2 { // which can be learned
		s.warn("records", fmt.Sprintf("the same labels are written in several ways, and each is a class of its own: %s", all), s.sameLabels(all))
	}
	switch {
	case len(all) == 1:
		text := fmt.Sprintf("every label is %s: nothing can be told apart until there is another one", all.sorted()[0].text)
		if s.whole && all.total() >= 50 {
			s.unsupported(text, "send records of both classes, in no particular order; if those of the other class have no label, give them one")
			return false
		}
		s.warn("records", text, "")
		return true
	case len(all) == 2:
		return s.convention(all)
	case strings.Count(s.format.Labels, ",") > 1:
		return true // a list of classes
	case all.quantities():
		s.change["task"], s.task = string(algos.Regress), algos.Regress
		if spec, err := registry.Lookup(s.Learner.Learner); err != nil || !slices.Contains(spec.Tasks, algos.Regress) {
			s.change["learner"], s.change["preset"], s.change["set"] = "online", "", ""
		}
		s.notes = append(s.notes, "the labels are quantities, which take a regression: "+all.String())
		return true
	}
	s.unsupported(fmt.Sprintf("there are %d classes, %s, and a model tells two apart", len(all), all), s.oneAgainstRest(all))
	return false
}

// convention sets what reads two labels.
func (s *study) convention(all tally) bool {
	set := all.convention(s.format.Labels)
	if set == s.format.Labels {
		return true
	}
	neg, pos, err := codec.ParseLabels(set)
	if err != nil {
		s.unsupported(fmt.Sprintf("the labels %s cannot be given in a setting: %v", all, err), "send them as 0 and 1")
		return false
	}
	s.format.Labels, s.change["labels"] = set, set
	s.notes = append(s.notes, fmt.Sprintf("the labels are %s: %v is taken as the negative one, %v as the positive", all, neg, pos))
	return true
}

// noLabels says where labels might be if there is none.
func (s *study) noLabels() bool {
	keys, headers := tally{}, map[string]tally{}
	for i := range s.recs {
		keys.add(textLabel(string(s.recs[i].Key)))
		for _, h := range s.recs[i].Headers {
			if headers[h.Key] == nil {
				headers[h.Key] = tally{}
			}
			headers[h.Key].add(textLabel(string(h.Value)))
		}
	}
	if s.labelled != nil {
		if topic, all := s.labelled(); topic != "" {
			s.change["join"], s.change["labels-topic"] = "key", topic
			s.notes = append(s.notes, "the labels seem to be those of topic "+topic+", by the records' keys")
			return s.tell(all)
		}
	}
	what := fmt.Sprintf("none of the %d records has a label, so nothing can be learned from them", len(s.recs))
	if s.codec == "json" {
		others := fieldsOf(s.values, func(m map[string]any) any {
			delete(m, "x")
			return m
		})
		if path := others.label(); path != "" {
			s.unsupported(what+"; the label seems to be "+path+`, where codec json wants it as "y"`, s.pipe(jq("{x,y:"+path+"}")))
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if all := headers[name]; len(all) == 2 || labelName(name) && len(all) > 0 {
			s.unsupported(fmt.Sprintf("%s; the label seems to be in the header %s, with the values %s, and headers are not read", what, name, all), "have the producer put it into the value, as "+labelPlace[s.codec])
			return false
		}
	}
	if len(keys) == 2 {
		s.unsupported(fmt.Sprintf("%s; the label seems to be the key, with the values %s, and keys are not read as labels", what, keys), "have the producer put it into the value, as "+labelPlace[s.codec])
		return false
	}
	s.unsupported(what, "put it into the value, as "+labelPlace[s.codec]+"; or if labels come later, with the same keys, to a topic of their own, add --join key --labels-topic and its name")
	return false
}

// labelPlace says where the codecs have labels.
var labelPlace = map[string]string{"json": `"y"`, "msgpack": `"y"`, "libsvm": "the first word", "csv": "a column (--label-column)"}
