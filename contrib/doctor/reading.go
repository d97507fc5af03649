package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// settings are the settings of train for reading records.
type settings struct {
	codec   string
	options codec.Options // for a codec.Discovery
	task    algos.Task
	change  map[string]string // flags that differ from the user's
	notes   []string          // assumptions, for the user to check
}

// labelColumn sets the label column: its number, or last.
func (s *settings) labelColumn(column string) {
	s.options.CSV.LabelColumn, s.change["label-column"] = column, column
	s.notes = append(s.notes, "the label seems to be in column "+column)
}

// reading is the result of reading the sampled records with some settings, as train
// would.
type reading struct {
	settings
	err      error         // why the records cannot be read
	found    codec.Options // with labels and schema
	features int           // the maximum in a record
	labelled int
	labels   map[string]int // how often each label was read
	bad      int            // records that cannot be used
	first    string         // the error of the first of them
	odd      string         // why the stream cannot begin with its first record
	lost     string         // a class that loses too many records
}

// read reads the records with the settings. It reads all of them before it judges
// any, because the right dimension is known only then.
func (r *recordReport) read(ctx context.Context, s settings) *reading {
	out := &reading{settings: s, labels: map[string]int{}}
	out.change, out.notes = maps.Clone(s.change), slices.Clone(s.notes)
	dec, err := r.discover(ctx, out)
	if err != nil {
		out.err = err
		return out
	}
	dims := make([]int, len(r.recs)) // of dense vectors, else -1
	errs := make([]error, len(r.recs))
	byDim := map[int]int{}
	for i := range r.recs {
		var ex stream.Example
		if dims[i] = -1; r.recs[i].Value == nil {
			continue
		}
		if errs[i] = stream.DecodeRecord(ctx, dec, nil, &r.recs[i], &ex); errs[i] != nil {
			continue
		}
		if slices.ContainsFunc(ex.X.Val, func(v float32) bool { return v >= algos.TooLarge || v <= -algos.TooLarge }) {
			errs[i] = fmt.Errorf("a feature is not below %g", algos.TooLarge)
			continue
		}
		if ex.Labelled {
			out.labelled++
			out.labels[cmp.Or(ex.Class, strconv.FormatFloat(ex.Y, 'g', -1, 64))]++
		}
		if !ex.X.Sparse() {
			dims[i] = len(ex.X.Val)
			byDim[dims[i]]++
		}
		out.features = max(out.features, ex.X.Dim())
	}
	common := -1 // dense vectors must have as many features as the first one
	for _, n := range slices.Sorted(maps.Keys(byDim)) {
		if byDim[n] > byDim[common] {
			common = n
		}
	}
	label, begun := labelField(out.options.Label), map[stream.Partition]bool{}
	classes := map[string][2]int{} // unusable records, and all records
	for i := range r.recs {
		rec := &r.recs[i]
		p := stream.Partition{Topic: rec.Topic, ID: rec.Partition}
		if rec.Value == nil {
			continue
		}
		if dims[i] >= 0 && dims[i] != common {
			errs[i] = fmt.Errorf("%d features, where most records have %d", dims[i], common)
			if r.fresh && !begun[p] && out.odd == "" {
				out.odd = stream.At(rec, errs[i]).Error() + "; a stream has as many as its first record"
			}
		}
		begun[p] = begun[p] || dims[i] >= 0
		class := out.labelText(label, rec.Value)
		n := classes[class]
		n[1]++
		if errs[i] != nil {
			n[0]++
			if out.bad++; out.bad == 1 {
				out.first = stream.At(rec, errs[i]).Error()
			}
		}
		classes[class] = n
	}
	if names, err := codec.ParseClasses(out.found.Labels); err == nil && s.task != algos.Regress {
		for _, name := range names {
			if n := classes[fmt.Sprint(name)]; n[0]*5 > n[1] {
				out.lost = fmt.Sprint(name)
			}
		}
	}
	return out
}

// discover finds labels and fields, and returns the codec for them.
func (r *recordReport) discover(ctx context.Context, out *reading) (codec.Codec, error) {
	s := &out.settings
	s.options.Task, s.options.Unlabelled = string(s.task), r.Labels != ""
	r.Learner.Join.Codec(&s.options)
	look := func() (*codec.Discovery, error) {
		d, err := codec.NewDiscovery(s.codec, s.options)
		if err != nil {
			return nil, err
		}
		for i := range r.recs {
			if r.recs[i].Value == nil {
				continue
			}
			if _, err := d.LookRecord(ctx, &r.recs[i]); err != nil {
				return nil, err
			}
		}
		for i := range r.labels {
			if _, err := d.LookLabel(ctx, &r.labels[i]); err != nil {
				return nil, err
			}
		}
		if out.found, err = d.Decide(); err == nil && out.found.Schema != "" && r.known[engine.MetaSchema] != "" {
			out.found = d.Known(r.known[engine.MetaLabels], r.known[engine.MetaSchema])
		}
		return d, err
	}
	d, err := look()
	if err != nil && d != nil && s.options.Label == "" {
		switch field := d.LabelField(); {
		case field == "":
		case s.codec == "csv" && s.options.CSV.LabelColumn == "":
			s.labelColumn(field)
			d, err = look()
		case s.codec != "csv" && d.Events():
			s.options.Label, s.change["label"] = field, field
			s.notes = append(s.notes, "the label seems to be the field "+field)
			d, err = look()
		}
	}
	if err == nil && len(r.labels) > 0 {
		err = r.checkLabels(ctx, out.found)
	}
	if err != nil {
		return nil, err
	}
	if s.options.Labels == codec.Auto && r.Format.Labels != codec.Auto && out.found.Labels != "" {
		s.change["labels"] = out.found.Labels
		s.notes = append(s.notes, "the labels are "+out.found.Labels)
	}
	return d.Codec(out.found)
}

// checkLabels checks that the records of the label topic can be read. A few strange
// ones do not matter.
func (r *recordReport) checkLabels(ctx context.Context, o codec.Options) error {
	dec, err := codec.NewLabels(o)
	if err != nil {
		return err
	}
	bad := 0
	for i := range r.labels {
		var ex stream.Example
		if why := stream.DecodeRecord(ctx, dec, nil, &r.labels[i], &ex); r.labels[i].Value != nil && why != nil {
			bad, err = bad+1, cmp.Or(err, why)
		}
	}
	if few(bad, len(r.labels)) {
		return nil
	}
	return fmt.Errorf("%d of %d labels in topic %s cannot be read, so that --labels %s may be wrong: %w", bad, len(r.labels), r.Labels, cmp.Or(o.Labels, "pm1"), err)
}

// labelField returns a pattern for the label field in JSON that may be malformed. The
// path is empty if the label has one of the usual names.
func labelField(path string) *regexp.Regexp {
	name := "(?:y|label|target|class|outcome)"
	if path != "" {
		name = regexp.QuoteMeta(path[strings.LastIndex(path, ".")+1:])
	}
	return regexp.MustCompile(`"` + name + `"\s*:\s*("[^"]*"|[^\s,}\]]+)`)
}

// labelText returns the label of a record as far as it can be found without the
// codec, which may refuse the record; "" if it cannot be found.
func (out *reading) labelText(field *regexp.Regexp, value []byte) (text string) {
	switch out.codec {
	case "json":
		if m := field.FindSubmatch(value); m != nil {
			text = strings.Trim(string(m[1]), `"`)
		}
	case "libsvm":
		text, _, _ = strings.Cut(strings.TrimSpace(string(value)), " ")
	case "csv":
		row := codec.SplitRow(string(value), out.options.CSV.Comma)
		column := map[string]int{"first": 1, "last": len(row)}[out.options.CSV.LabelColumn]
		if k, err := strconv.Atoi(out.options.CSV.LabelColumn); err == nil {
			column = k
		}
		if column >= 1 && column <= len(row) {
			text = row[column-1]
		}
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Sprint(v)
	}
	return text
}

// usable reports whether train would learn from the records: nearly all can be
// read, they have labels, and no class loses many records.
func (out *reading) usable(r *recordReport) bool {
	return out.err == nil && few(out.bad, r.live) && out.odd == "" && out.lost == "" && (out.labelled > 0 || r.Labels != "") && !out.oneClass(r) &&
		(out.task == r.Learner.Task || len(out.labels) > 10) // this few numbers are classes
}

// oneClass reports whether there are enough records to say that there is only
// one class.
func (out *reading) oneClass(r *recordReport) bool {
	return out.task != algos.Regress && r.Labels == "" && len(out.labels) == 1 && r.whole && out.labelled >= 50
}

// problem returns why the reading is not usable, and a remedy.
func (out *reading) problem(r *recordReport) (text, remedy string) {
	const others = "have the producer write these records as the others, with a number in place of a feature that is missing, such as 0 or the mean"
	bad := fmt.Sprintf("%d of the first %d cannot be read as %s", out.bad, len(r.recs), out.codec)
	remedy = "records that can be learned from look like " + plain
	if 2*out.bad < r.live {
		remedy = others
	}
	if r.known[engine.MetaSchema] != "" {
		remedy = "the features are those of the checkpoint: --restart finds them anew, and forgets what has been learned"
	}
	switch {
	case out.err != nil && out.codec == "csv":
		return out.err.Error(), "run doctor again with --label-column and the one that it is; a quantity needs --task regress too"
	case out.err != nil && strings.Contains(out.err.Error(), " --"): // it names the flag
		return out.err.Error(), ""
	case out.err != nil:
		return out.err.Error(), "records that can be learned from look like " + plain
	case out.bad == r.live:
		return fmt.Sprintf("none of the first %d can be read as %s: %s", out.bad, out.codec, out.first), remedy
	case out.odd != "":
		return "the numbers of features differ: " + out.odd, remedy
	case out.lost != "" && few(out.bad, r.live):
		return fmt.Sprintf("%s, and they are too many of the class %s to be left out: %s", bad, out.lost, out.first), remedy
	case out.bad > 0:
		return bad + ": " + out.first, remedy
	case out.labelled == 0:
		return fmt.Sprintf("none of the %d records has a label, so nothing can be learned from them", len(r.recs)),
			"put it into the value (as \"y\", or name its field with --label); if labels come later, to a topic of their own, add --labels-topic and its name, and --join and the field that both have"
	}
	return "all labels are the same, so there is nothing to tell apart", "send records of both classes, in no particular order; if those of the other class have no label, give them one"
}

// report reports settings that work, and how the user's settings do.
func (r *recordReport) report(out, asSet *reading) {
	const subject = "records"
	if out.bad > 0 && !r.Tolerant {
		out.change["tolerance"] = "data"
		if r.DeadLetters == "" {
			out.change["dlq"] = ".dlq"
		}
		out.notes = append(out.notes, fmt.Sprintf("%d of %d records then become dead letters: %s", out.bad, r.live, out.first))
	}
	switch {
	case len(out.change) > 0:
		text, _ := asSet.problem(r)
		if asSet.usable(r) && asSet.bad == 0 {
			text = strings.Join(out.notes, "; ")
		}
		r.fail(cli.Data, subject, text, strings.Join(append([]string{r.Train(out.change)}, out.notes...), "\n"))
	case out.bad > 0: // tolerated
		text, _ := out.problem(r)
		r.warn(subject, text, "")
	default:
		text := fmt.Sprintf("the first %d can be read as %s", len(r.recs), out.codec)
		if out.found.Schema != "" {
			text = fmt.Sprintf("the first %d are events that codec %s reads: %d features, labels %s; schema infer shows them", r.live, out.codec, out.features, cmp.Or(out.found.Labels, "numbers"))
		}
		if n := r.live - out.labelled; n > 0 && r.Labels == "" {
			text += fmt.Sprintf("; %d have no label", n)
		}
		r.ok(subject, "%s", text)
	}
	for _, form := range slices.Sorted(maps.Keys(r.Exports)) {
		if out.found.Schema == "" {
			break
		}
		err := r.Exports[form](out.found.Schema)
		switch {
		case err != nil && form == r.RequireExport:
			r.fail(cli.Data, "export", err.Error(), "leave such fields out with --events, as type ignore")
		case err != nil:
			r.ok("export", "models cannot be exported as %s: %v", form, err)
		}
	}
	if len(out.labels) == 1 && out.task != algos.Regress {
		r.warn(subject, "every label is the same: nothing can be learned until there is another one", "")
	}
}

// shown returns the beginning of a value.
func shown(v string) string {
	if len(v) > 60 {
		v = v[:60] + "..."
	}
	return strconv.QuoteToASCII(v)
}
