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
	s := &study{checkup: d, recs: recs, whole: whole, fresh: snap == nil, change: map[string]string{}, codec: d.Codec, format: d.Format, task: d.Learner.Task}
	if d.Labels != "" {
		// What cannot be read here is reported for the topic of examples.
		s.labelRecs, _, _ = d.sample(ctx, []string{d.Labels}, from)
	} else {
		s.labelled = func() (string, *tally) { return d.labelsTopic(ctx, c, recs) }
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

// take reads up to n records of a bounded source, and closes it.
func take(ctx context.Context, src *kafkaio.Source, n int) (recs []stream.Record, err error) {
	defer src.Close()
	for len(recs) < n && err == nil {
		recs, err = src.Fetch(ctx, recs)
	}
	if err == io.EOF {
		err = nil
	}
	return recs[:min(n, len(recs))], err
}

// labelsTopic looks for a topic that holds the labels of these records, which
// have none, by their keys.
func (d *checkup) labelsTopic(ctx context.Context, c *cluster, recs []stream.Record) (string, *tally) {
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
		met, all := 0, &tally{}
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
	labelled  func() (topic string, all *tally)

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
	if s.whole {
		return fmt.Sprintf("%d of the %d", n, len(s.recs))
	}
	return fmt.Sprintf("%d of %d looked at", n, len(s.recs))
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
		s.notes = append(s.notes, s.share(dead)+" records are tombstones (no value), which have to be skipped")
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
		s.unsupported(s.share(count[mainForm])+" records are "+string(mainForm)+s.why(mainForm), s.cure(mainForm))
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
	all := &s.labels
	if len(s.labelRecs) > 0 {
		for i := range s.labelRecs {
			all.add(bareLabel(s.labelRecs[i].Value))
		}
	}
	for i := range s.recs {
		s.of = append(s.of, s.labelOf(s.recs[i].Value))
		all.add(s.of[i])
	}
	if s.table != nil && s.table.headers != nil && s.table.label >= 0 {
		for _, h := range s.table.headers { // what stands there is a name
			delete(all.n, textLabel(h[s.table.label]).text)
		}
		all.wordy = s.table.labels(s.table.label).wordy
	}
	if len(all.n) == 0 && s.Labels == "" {
		return s.noLabels()
	}
	return len(all.n) == 0 || s.tell(all)
}

// tell says what reads the labels, all of which are given.
func (s *study) tell(all *tally) bool {
	if s.task == algos.Regress {
		if all.wordy {
			s.unsupported("a regression needs labels that are numbers without quotes: "+all.String(), "send them as numbers, or train a classification (--task classify)")
			return false
		}
		return true
	}
	switch {
	case len(all.n) == 1:
		text := fmt.Sprintf("every label is %s: nothing can be told apart until there is another one", all.texts()[0])
		if s.whole && all.total() >= 50 {
			s.unsupported(text, "send records of both classes, in no particular order; if those of the other class have no label, give them one")
			return false
		}
		s.warn("records", text, "")
		return true
	case len(all.n) == 2:
		if set := all.convention(s.format.Labels); set != cmp.Or(s.format.Labels, "pm1") {
			s.format.Labels, s.change["labels"] = set, set
			neg, pos, err := codec.LabelNames(set)
			if err != nil {
				s.unsupported(fmt.Sprintf("the labels %s cannot be named in a setting: %v", all, err), "send them as 0 and 1")
				return false
			}
			s.notes = append(s.notes, fmt.Sprintf("the labels are %s: %s is taken as the negative one, %s as the positive", all, neg, pos))
		}
		return true
	case all.quantities():
		s.change["task"], s.task = string(algos.Regress), algos.Regress
		if spec, err := registry.Lookup(s.Learner.Learner); err != nil || !slices.Contains(spec.Tasks, algos.Regress) {
			s.change["learner"], s.change["preset"], s.change["set"] = "online", "", ""
		}
		s.notes = append(s.notes, "the labels are quantities, which take a regression: "+all.String())
		return true
	}
	// Two of them, and the rest.
	texts := all.texts()
	slices.SortStableFunc(texts, func(a, b string) int { return cmp.Compare(all.n[b], all.n[a]) })
	hint, y := "", "a label"
	if rest := all.total() - all.n[texts[0]] - all.n[texts[1]]; few(rest, all.total()) {
		two := &tally{n: map[string]int{texts[0]: 1, texts[1]: 1}, wordy: all.wordy}
		hint = fmt.Sprintf("\nif all but %s and %s are mistakes, %s of %d, a run with --labels %s --tolerance data --dlq puts them aside", texts[0], texts[1],
			strconv.Itoa(rest), all.total(), two.convention(s.format.Labels))
	} else if !all.wordy {
		hint = "\nif they are quantities, predict them: --task regress --learner online"
	}
	if s.codec == "json" {
		y = ".y==" + texts[0]
		if all.wordy {
			y = fmt.Sprintf(".y==%q", texts[0])
		}
		hint = "\n" + s.pipe(jq(".y|=(if "+strings.TrimPrefix(y, ".y")+" then 1 else -1 end)")) + hint
		hint = strings.Replace(hint, "(if ==", "(if .==", 1)
	}
	s.unsupported(fmt.Sprintf("there are %d classes, %s, and a model tells two apart", len(all.n), all), "train one model for each class against the rest, from topics in which that class is 1 and the others are -1"+hint)
	return false
}

// noLabels says where labels might be if there is none.
func (s *study) noLabels() bool {
	keys, headers := &tally{}, map[string]*tally{}
	for i := range s.recs {
		keys.add(textLabel(string(s.recs[i].Key)))
		for _, h := range s.recs[i].Headers {
			if headers[h.Key] == nil {
				headers[h.Key] = &tally{}
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
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if all := headers[name]; len(all.n) == 2 || labelName(name) && len(all.n) > 0 {
			s.unsupported(fmt.Sprintf("%s; the label seems to be in the header %s, with the values %s, and headers are not read", what, name, all), "have the producer put it into the value, as "+labelPlace[s.codec])
			return false
		}
	}
	if len(keys.n) == 2 {
		s.unsupported(fmt.Sprintf("%s; the label seems to be the key, with the values %s, and keys are not read as labels", what, keys), "have the producer put it into the value, as "+labelPlace[s.codec])
		return false
	}
	s.unsupported(what, "put it into the value, as "+labelPlace[s.codec]+"; or if labels come later, with the same keys, to a topic of their own, add --join key --labels-topic and its name")
	return false
}

// labelPlace says where the codecs have labels.
var labelPlace = map[string]string{"json": `"y"`, "msgpack": `"y"`, "libsvm": "the first word", "csv": "a column (--label-column)"}

// try reads all records with the settings found, as train would.
func (s *study) try() {
	format := s.format
	format.Task = string(s.task)
	dec, err := codec.New(s.codec, format)
	if err != nil {
		s.unsupported(err.Error(), "")
		return
	}
	type lost struct{ bad, all int }
	var (
		ex              stream.Example
		bad, live       int
		first           string
		reasons         = map[stream.Reason]int{}
		byLabel         = map[string]*lost{}
		dims            = map[int]int{}
		dim, firstOfDim int
		classes         = map[float64]bool{}
		unlabelled      int
	)
	for i := range s.recs {
		r := &s.recs[i]
		if r.Value == nil && (s.SkipTombstones || s.change["tombstones"] != "") {
			continue
		}
		live++
		text := s.of[i].text
		if byLabel[text] == nil {
			byLabel[text] = &lost{}
		}
		byLabel[text].all++
		err := dec.Decode(r.Value, &ex)
		if err == nil && !ex.X.Sparse() {
			dims[len(ex.X.Val)]++
			if dim == 0 {
				dim, firstOfDim = len(ex.X.Val), i
			}
			if len(ex.X.Val) != dim {
				err = &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonDimension, Field: "x", Err: fmt.Errorf("%d features where the stream has %d", len(ex.X.Val), dim)}
			}
		}
		if err == nil && slices.ContainsFunc(ex.X.Val, func(v float32) bool { return math.Abs(float64(v)) >= algos.TooLarge }) {
			err = &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonNotFinite, Field: "x", Err: fmt.Errorf("a feature is not below %g", algos.TooLarge)}
		}
		if err != nil {
			bad++
			byLabel[text].bad++
			var field *stream.FieldError
			if errors.As(err, &field) {
				reasons[field.Reason]++
			}
			if bad == 1 {
				first = fmt.Sprintf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
			}
			continue
		}
		if !ex.Labelled {
			unlabelled++
		} else {
			classes[ex.Y] = true
		}
	}
	if reasons[stream.ReasonIndex] > 0 && (s.codec == "libsvm" || s.codec == "json") {
		s.unsupported(fmt.Sprintf("%s records have a feature 0, so features are numbered from 0, and codec %s numbers them from 1: %s", s.share(reasons[stream.ReasonIndex]), s.codec, first), s.renumber())
		return
	}
	common, most := 0, 0
	for n, k := range dims {
		if k > most {
			common, most = n, k
		}
	}
	if len(dims) > 1 && (common != dim || !few(reasons[stream.ReasonDimension], live)) {
		var list []string
		for _, n := range slices.Sorted(maps.Keys(dims)) {
			list = append(list, fmt.Sprintf("%d (%d)", n, dims[n]))
		}
		r := &s.recs[firstOfDim]
		s.unsupported(fmt.Sprintf("the numbers of features differ, %s, and a stream has as many as its first record, %s/%d offset %d: %d", strings.Join(list[:min(len(list), 6)], ", "), r.Topic, r.Partition, r.Offset, dim),
			s.sparse(common))
		return
	}
	s.report(dec, bad, live, unlabelled, first, func() string {
		for text, l := range byLabel {
			if s.labels.n[text] > 0 && l.bad*5 > l.all {
				return text
			}
		}
		if s.task == algos.Classify && len(classes) < 2 && unlabelled == 0 {
			return "one"
		}
		return ""
	}, reasons)
}

// report says how many records are read by the settings found, and what has to
// be set. lost names a class that bad records would take too much of.
func (s *study) report(dec codec.Codec, bad, live, unlabelled int, first string, lost func() string, reasons map[stream.Reason]int) {
	subject := "records"
	present, presentFirst := s.present()
	if bad == 0 && len(s.change) == 0 {
		text := fmt.Sprintf("the first %d can be read as %s", len(s.recs), s.codec)
		if unlabelled > 0 && s.Labels == "" {
			text += fmt.Sprintf("; %d have no label", unlabelled)
		}
		s.ok(subject, "%s", text)
		return
	}
	class := lost()
	switch {
	case bad > 0 && (!few(bad, live) || class != ""):
		also := ""
		if class != "" && few(bad, live) {
			also = fmt.Sprintf(", and they are too many of the class %s to be left out", class)
		}
		s.unsupported(fmt.Sprintf("%d of the first %d cannot be read as %s%s: %s", bad, len(s.recs), s.codec, also, first), s.mend(reasons))
		return
	case bad > 0 && !s.Tolerant:
		s.change["tolerance"] = "data"
		if s.DeadLetters == "" {
			s.change["dlq"] = ".dlq"
		}
		s.notes = append(s.notes, fmt.Sprintf("%d of %d records then become dead letters", bad, live))
	}
	remedy := strings.Join(s.notes, "\n")
	if len(s.change) > 0 {
		remedy = s.Train(s.change)
		if len(s.notes) > 0 {
			remedy += "\n" + strings.Join(s.notes, "\n")
		}
	}
	switch {
	case present == live && present > 0:
		s.fail(cli.Data, subject, fmt.Sprintf("none of the first %d can be read as %s: %s", len(s.recs), s.Codec, presentFirst), remedy)
	case len(s.change) == 0: // tolerated
		s.warn(subject, fmt.Sprintf("%d of the first %d cannot be read as %s: %s", bad, len(s.recs), s.codec, first), remedy)
	case present > 0:
		s.fail(cli.Data, subject, fmt.Sprintf("%d of the first %d cannot be read as %s: %s", present, len(s.recs), s.Codec, presentFirst), remedy)
	default:
		s.fail(cli.Data, subject, fmt.Sprintf("the first %d can be read as %s, but not learned from as they are meant", len(s.recs), s.Codec), remedy)
	}
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
