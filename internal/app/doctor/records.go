package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// tried bounds how many records are looked at, of which the first half is what
// train would read first, and for how long they are waited for.
const (
	triedRecords = 2000
	triedBytes   = 64 << 20
	triedFor     = 15 * time.Second
)

// few reports whether n of all records are so few that a run may lose them.
func few(n, all int) bool { return n*20 <= all }

// records looks at what the records are, and whether train would read them.
func (d *checkup) records(ctx context.Context, c *cluster, snap *checkpoint.Snapshot) {
	if d.Source == nil || d.Learner == nil {
		return // the reason is among the settings' findings
	}
	ctx, cancel := context.WithTimeout(ctx, triedFor)
	defer cancel()
	var from stream.Offsets
	if snap != nil {
		from = snap.Header.Offsets
	}
	recs, whole, err := d.sample(ctx, d.Topics, from)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		d.fail(cli.Unavailable, "records", err.Error(), "")
		return
	}
	if len(recs) == 0 {
		d.warn("records", "there is none to try the codec on", "run doctor again when there are some: until then nobody knows whether codec and labels are right")
		return
	}
	s := &study{checkup: d, recs: recs, whole: whole, fresh: snap == nil, change: map[string]string{}, labels: tally{}, codec: d.Codec, format: d.Format, task: d.Learner.Task}
	if d.Labels != "" {
		// What cannot be read here is reported for the topic of examples.
		s.labelRecs, _, _ = d.sample(ctx, []string{d.Labels}, from)
	} else {
		s.labelled = func() (string, tally) { return d.labelsTopic(ctx, c, recs) }
	}
	s.judge()
	s.order()
}

// sample reads records of the topics: all of them if they are not more than
// triedRecords, else the first ones, some from the middle and the last ones.
func (d *checkup) sample(ctx context.Context, topics []string, from stream.Offsets) (recs []stream.Record, whole bool, err error) {
	opts := *d.Source
	opts.Topics, opts.Offsets = topics, from
	if !slices.Equal(topics, d.Topics) {
		opts.Partitions = nil
	}
	// Nothing is told to the group, and there may be nothing after the latest.
	opts.Group, opts.UntilEnd, opts.MaxDown, opts.OutOfRange = "", true, triedFor, kafkaio.OutOfRangeEarliest
	if opts.Start == kafkaio.StartLatest {
		opts.Start = kafkaio.StartEarliest
	}
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil {
		return nil, false, err
	}
	start, end := src.Start(), src.End()
	total := int64(0)
	for p := range end {
		total += max(0, end[p]-start[p])
	}
	whole = total <= triedRecords
	most := triedRecords
	if !whole {
		most /= 2
	}
	recs, err = take(ctx, src, most)
	if err != nil || whole {
		return recs, whole, err
	}
	for _, at := range []float64{0.5, 1} {
		opts.Offsets, opts.StopAt, opts.UntilEnd = stream.Offsets{}, stream.Offsets{}, false
		each := int64(max(1, triedRecords/4/len(end)))
		for p := range end {
			last := max(start[p], start[p]+int64(at*float64(end[p]-start[p]))-each)
			opts.Offsets[p], opts.StopAt[p] = last, min(last+each, end[p])
		}
		src, err := kafkaio.NewSource(ctx, opts)
		if err != nil {
			return recs, whole, err
		}
		more, err := take(ctx, src, triedRecords)
		if err != nil {
			return recs, whole, err
		}
		recs = append(recs, more...)
	}
	return recs, whole, nil
}

// take reads up to n records of a bounded source, fewer if they are large, and
// closes it.
func take(ctx context.Context, src *kafkaio.Source, n int) (recs []stream.Record, err error) {
	defer src.Close()
	bytes := 0
	for len(recs) < n && bytes < triedBytes && err == nil {
		before := len(recs)
		recs, err = src.Fetch(ctx, recs)
		for i := range recs[before:] {
			bytes += len(recs[before+i].Value)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return recs[:min(n, len(recs))], err
}

// labelsTopic looks for a topic that holds the labels of these records, which
// have none, by their keys.
func (d *checkup) labelsTopic(ctx context.Context, c *cluster, recs []stream.Record) (string, tally) {
	keys := map[string]bool{}
	for i := range recs {
		if len(recs[i].Key) > 0 {
			keys[string(recs[i].Key)] = true
		}
	}
	if len(keys) == 0 || c == nil {
		return "", nil
	}
	var near []string
	for _, name := range c.topics {
		likely := strings.Contains(name, d.Topics[0]) || strings.Contains(strings.ToLower(name), "label")
		if likely && !slices.Contains(d.Topics, name) && name != d.ModelTopic && !strings.HasPrefix(name, "__") {
			near = append(near, name)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int {
		return cmp.Compare(strings.Index(b, d.Topics[0]), strings.Index(a, d.Topics[0]))
	})
	for _, name := range near[:min(len(near), 5)] {
		others, _, err := d.sample(ctx, []string{name}, nil)
		if err != nil || len(others) == 0 {
			continue
		}
		met, all := 0, tally{}
		for i := range others {
			if keys[string(others[i].Key)] {
				met++
			}
			all.add(bareLabel(others[i].Value))
		}
		if met > 0 && few(len(others)-all.total(), len(others)) {
			return name, all
		}
	}
	return "", nil
}

// bareLabel is the label in a record of a topic of labels.
func bareLabel(value []byte) label {
	v, err := parseJSON(string(value))
	m, ok := v.(map[string]any)
	switch {
	case err == nil && ok:
		return valueLabel(m["y"])
	case len(value) > 64:
		return noLabel
	}
	return textLabel(string(value))
}

// study is what is found out about records.
type study struct {
	*checkup
	recs      []stream.Record
	whole     bool            // they are all that there are
	fresh     bool            // train would begin with them
	labelRecs []stream.Record // of the topic of labels
	labelled  func() (topic string, all tally)

	// What reads the records best.
	codec  string
	format codec.Options
	task   algos.Task
	change map[string]string // settings other than those that hold
	notes  []string          // what has been assumed

	values []string // of the main form
	table  *table   // of csv
	of     []label  // of each record
	labels tally    // of all, those of the topic of labels too
}

// unsupported reports records of which nothing can be learned as they are.
func (s *study) unsupported(text, remedy string) {
	s.fail(cli.Data, "records", "not supported: "+text, remedy)
}

// of says how many of the records that have been looked at n are.
func (s *study) share(n int) string {
	switch {
	case s.whole && n == len(s.recs):
		return fmt.Sprintf("all %d records", n)
	case s.whole:
		return fmt.Sprintf("%d of the %d records", n, len(s.recs))
	}
	return fmt.Sprintf("%d of %d records looked at", n, len(s.recs))
}

// judge reports what the records are, and what has to be set to learn from
// them.
func (s *study) judge() {
	count := map[form]int{}
	forms := make([]form, len(s.recs))
	for i := range s.recs {
		forms[i] = formOf(&s.recs[i])
		count[forms[i]]++
	}
	dead := count[formTombstone]
	delete(count, formTombstone)
	live := len(s.recs) - dead
	if live == 0 {
		s.unsupported(fmt.Sprintf("all %d records are tombstones, which have a key and no value", dead), "write the examples as values")
		return
	}
	if dead > 0 && !s.SkipTombstones {
		s.change["tombstones"] = "skip"
		s.notes = append(s.notes, s.share(dead)+" are tombstones (no value), which have to be skipped")
	}
	mainForm := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b form) int { return cmp.Compare(count[a], count[b]) })
	if mainForm == formLibSVM || mainForm == formCSV {
		// A row without features, or with one column.
		count[mainForm] += count[formLabel]
		delete(count, formLabel)
	}
	if n := live - count[mainForm]; !few(n, live) {
		s.unsupported("the formats are mixed: "+counts(count), "read only what is of one format: write the records of each format to a topic of its own; if the format has changed at some time, begin after it with --start TIME")
		return
	}
	for i := range s.recs {
		if forms[i] == mainForm {
			s.values = append(s.values, string(s.recs[i].Value))
		}
	}
	if !slices.Contains(codec.Names(), string(mainForm)) {
		s.unsupported(s.share(count[mainForm])+" are "+string(mainForm)+s.why(mainForm), s.cure(mainForm))
		return
	}
	if s.codec != string(mainForm) {
		s.codec = string(mainForm)
		s.change["codec"] = s.codec
	}
	if s.codec == "csv" && !s.readTable() || !s.readLabels() {
		return
	}
	s.try()
}

// counts lists forms, the most frequent first.
func counts(n map[form]int) string {
	var list []string
	for _, f := range slices.SortedFunc(maps.Keys(n), func(a, b form) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) }) {
		list = append(list, fmt.Sprintf("%d %s", n[f], f))
	}
	return strings.Join(list, ", ")
}

// readTable finds out what the columns of csv are.
func (s *study) readTable() bool {
	t := readTable(s.values, s.format.CSV)
	s.table = t
	if t.columns == 0 || len(t.rows) == 0 {
		s.unsupported("the records are text without numbers: "+shown(s.values[0]), "turn it into features before it is sent")
		return false
	}
	if t.comma != s.format.CSV.Comma {
		s.format.CSV.Comma = t.comma
		s.change["csv-separator"] = string(t.comma)
	}
	if len(t.also) > 0 {
		s.fail(cli.Data, "records", fmt.Sprintf("columns %s have two values each, so any of them could be the label", numbers(t.also)),
			"not supported without a hint: run doctor again with --label-column and the one that it is")
		return false
	}
	if t.label < 0 && s.task == algos.Regress {
		t.label = t.columns - 1
		s.notes = append(s.notes, "the label is taken to be the last column")
	}
	if t.label < 0 && s.Labels == "" {
		s.unsupported(fmt.Sprintf("no column of the %d has two values, so none looks like the label of a classification%s", t.columns, t.likely()),
			"if a column holds it, say which: --label-column; a quantity to predict needs --task regress --learner online too")
		return false
	}
	if t.label >= 0 && s.format.CSV.LabelColumn == "" {
		s.format.CSV.LabelColumn = t.column(t.label)
		s.change["label-column"] = s.format.CSV.LabelColumn
		s.notes = append(s.notes, fmt.Sprintf("the label seems to be column %d", t.label+1))
	}
	var words []int
	for _, k := range t.words {
		if !slices.Contains(s.format.CSV.DropColumns, strconv.Itoa(k+1)) {
			words = append(words, k)
		}
	}
	if len(words) > 0 {
		s.format.CSV.DropColumns = append(slices.Clone(s.format.CSV.DropColumns), strings.Split(numbers(words), ",")...)
		s.change["drop-columns"] = strings.Join(s.format.CSV.DropColumns, ",")
		s.notes = append(s.notes, fmt.Sprintf("column %s is text, and dropped: send it as numbers if it matters", numbers(words)))
		if len(t.words)+1 >= t.columns {
			s.unsupported("no column but the label is a number", "turn the words into numbers before they are sent")
			return false
		}
	}
	if !few(t.missing, len(t.rows)) {
		s.unsupported(fmt.Sprintf("%d of %d rows say with a word, such as %s, that a feature is missing, and no learner takes that", t.missing, len(t.rows), t.missingWord()),
			"put a number in place of it, such as the mean of the column, before it is sent; empty fields can be read as 0 with --csv-empty-as-zero")
		return false
	}
	if !few(t.empty, len(t.rows)) && !s.format.CSV.EmptyAsZero {
		s.format.CSV.EmptyAsZero = true
		s.change["csv-empty-as-zero"] = "true"
		s.notes = append(s.notes, fmt.Sprintf("%d of %d rows have empty fields, which are read as 0", t.empty, len(t.rows)))
	}
	return true
}

func (t *table) missingWord() string {
	for _, row := range t.rows {
		for k, f := range row {
			if k != t.label && !slices.Contains(t.words, k) && slices.Contains(missingWords, strings.ToLower(f)) {
				return f
			}
		}
	}
	return ""
}

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
		s.of = append(s.of, s.labelOf(s.recs[i].Value))
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
	if all.mixed() && !s.textual() || len(all) > 2 && all.folded() == 2 {
		s.unsupported("the same labels are written in several ways: "+all.String(), s.sameLabels(all))
		return false
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
		case slices.ContainsFunc(ex.X.Val, func(v float32) bool { return math.Abs(float64(v)) >= algos.TooLarge }):
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
	format.Task = string(s.Learner.Task)
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

// order warns of records that come twice, and of timestamps that go back where
// the order follows them.
func (s *study) order() {
	seen := map[string]bool{}
	twice, back := 0, 0
	last := map[stream.Partition]time.Time{}
	var by time.Duration
	for i := range s.recs {
		r := &s.recs[i]
		id := string(r.Key) + "\x00" + string(r.Value)
		if seen[id] && len(bytes.TrimSpace(r.Value)) > 0 {
			twice++
		}
		seen[id] = true
		p := stream.Partition{Topic: r.Topic, ID: r.Partition}
		if r.Time.Before(last[p]) {
			back++
			by = max(by, last[p].Sub(r.Time))
		} else {
			last[p] = r.Time
		}
	}
	if !few(twice, len(s.recs)) && len(s.recs) >= 100 {
		s.warn("records", s.share(twice)+" are copies of others: each is learned from as often as it comes", "if a producer sends again after an error, set its enable.idempotence=true")
	}
	if s.Source.Merge == kafkaio.MergeOrdered && back > 0 {
		s.warn("records", fmt.Sprintf("the timestamps of %s are before that of a record in front of them, by up to %v: --merge ordered keeps the order inside a partition, so a late record holds its partition's next ones back", s.share(back), by),
			"the order is the same in every run, and need not be mended; to have it by arrival, set --merge arrival")
	}
}

// shown is the beginning of a value.
func shown(v string) string {
	if len(v) > 60 {
		v = v[:60] + "..."
	}
	return strconv.QuoteToASCII(v)
}
