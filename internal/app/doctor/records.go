package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/algos"
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
	if codec.Schematic(s.codec) {
		s.written(ctx)
	} else {
		s.judge()
	}
	s.order()
}

// discover finds out what train would, and reports whether there is no more to
// be said about what the records are.
func (s *study) discover() bool {
	labels, events := s.Format.Labels == codec.Auto, s.Format.Events != "" || s.Format.Label != ""
	if !labels && !events {
		return false
	}
	o := s.Format
	o.CSV, o.Task, o.Unlabelled = s.format.CSV, string(s.task), s.Labels != ""
	s.format.Events, s.format.Label = "", ""
	if labels {
		s.format.Labels = ""
	}
	d, found, err := s.look(o)
	if d == nil {
		return false // the error is among the settings' findings
	}
	missing := ""
	if err != nil && o.Label == "" && d.Events() {
		if o.Label = d.LabelField(); o.Label != "" {
			missing = err.Error()
			s.change["label"] = o.Label
			d, found, err = s.look(o)
		}
	}
	if err != nil {
		if d.Events() {
			s.fail(cli.Data, "records", err.Error(), "")
		}
		return d.Events()
	}
	s.format.Labels = found.Labels
	if found.Schema == "" {
		return false
	}
	c, err := d.Codec(found)
	if err != nil {
		s.fail(cli.Data, "records", err.Error(), "")
		return true
	}
	bad, live, first := 0, 0, ""
	var ex stream.Example
	for i := range s.recs {
		r := &s.recs[i]
		if r.Value == nil && (s.SkipTombstones || s.change["tombstones"] != "") {
			continue
		}
		live++
		if err := c.Decode(r.Value, &ex); err != nil {
			if bad++; bad == 1 {
				first = fmt.Sprintf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
			}
		}
	}
	features, _ := codec.SchemaFeatures(found.Schema) // of a schema that has been read
	text := fmt.Sprintf("the first %d are events in %s with %d features, labels %s; schema infer shows them", live, s.codec, len(features), found.Labels)
	if bad > 0 {
		text = fmt.Sprintf("%d of the first %d cannot be used: %s", bad, live, first)
	}
	if bad > 0 && !s.Tolerant {
		s.change["tolerance"] = "data"
		if s.DeadLetters == "" {
			s.change["dlq"] = ".dlq"
		}
		s.notes = append(s.notes, fmt.Sprintf("%d of %d records then become dead letters: %s", bad, live, first))
	}
	switch {
	case len(s.change) > 0:
		if missing != "" {
			text = missing
		}
		s.fail(cli.Data, "records", text, strings.Join(append([]string{s.Train(s.change)}, s.notes...), "\n"))
	case bad > 0:
		s.warn("records", text, "")
	default:
		s.ok("records", "%s", text)
	}
	return true
}

// look lets a Discovery look at the records. It is nil where the options cannot
// be right.
func (s *study) look(o codec.Options) (*codec.Discovery, codec.Options, error) {
	d, err := codec.NewDiscovery(s.codec, o)
	if err != nil {
		return nil, o, err
	}
	for i := range s.recs {
		if s.recs[i].Value != nil {
			d.Look(s.recs[i].Value)
		}
	}
	for i := range s.labelRecs {
		d.LookLabel(s.labelRecs[i].Value)
	}
	found, err := d.Decide()
	return d, found, err
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
			s.values = append(s.values, string(unframed(s.recs[i].Value)))
		}
	}
	if fields := []form{formFields, formTextNumber, formEnvelope, formDebezium}; slices.Contains(fields, mainForm) {
		if s.codec != string(formJSON) {
			s.codec, s.change["codec"] = string(formJSON), string(formJSON)
		}
		if s.discover() {
			return
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
	if s.codec == "csv" && !s.readTable() || s.discover() || s.codec == "csv" && !s.numbersOnly() || !s.readLabels() {
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
	return true
}

// numbersOnly finds out which columns are no numbers.
func (s *study) numbersOnly() bool {
	t := s.table
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
