package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Bounds of the sample.
const (
	triedRecords  = 2000
	joinedRecords = 100_000 // of both topics
	triedBytes    = 64 << 20
	triedFor      = 15 * time.Second
)

// few reports whether n of all records are few enough for a run to lose them.
func few(n, all int) bool { return n*20 <= all }

// registry checks that the schema registry answers.
func (d *checks) registry(ctx context.Context) bool {
	if d.Registry == nil {
		return true
	}
	err := d.Registry(ctx)
	if err != nil {
		d.unavailable("schema registry", err.Error(), "check --schema-registry, user and password: train waits until it answers")
	} else {
		d.ok("schema registry", "it answers")
	}
	return err == nil
}

// records checks whether train can learn from the records of the topics.
func (d *checks) records(ctx context.Context, snap *checkpoint.Snapshot) {
	if d.Source == nil || d.Learner == nil {
		return // the findings about the settings give the reason
	}
	ctx, cancel := context.WithTimeout(ctx, triedFor)
	defer cancel()
	var from stream.Offsets
	if snap != nil {
		from = snap.Header.Offsets
	}
	both, whole, err := d.sample(ctx, from)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		d.unavailable("records", err.Error(), "")
		return
	}
	r := &recordReport{checks: d, both: both, fresh: snap == nil, known: map[string]string{}}
	if snap != nil {
		for _, kv := range snap.Header.Meta {
			r.known[kv[0]] = kv[1]
		}
	}
	for i := range both {
		if d.Labels != "" && both[i].Topic == d.Labels {
			r.labels = append(r.labels, both[i])
		} else {
			r.recs = append(r.recs, both[i])
		}
	}
	r.whole = whole && len(r.recs) <= triedRecords
	r.recs = r.recs[:min(len(r.recs), triedRecords)]
	if len(r.recs) == 0 && whole && snap != nil {
		d.ok("records", "the checkpoint is at the end of the topics: there are no new ones to check")
		return
	}
	if len(r.recs) == 0 {
		d.warn("records", "there are none yet, so codec and labels cannot be checked", "run doctor again when there are some")
		return
	}
	if d.Labels != "" && len(r.labels) == 0 {
		d.warn("records", "there are no labels yet, so they cannot be checked", "run doctor again when there are some")
		return
	}
	r.run(ctx)
}

// recordReport finds out the form of the sampled records, and the settings with which
// train could learn from them.
type recordReport struct {
	*checks
	recs   []stream.Record
	whole  bool              // recs holds all records of the topics
	fresh  bool              // train would begin with recs[0]
	known  map[string]string // what the checkpoint says of the data
	labels []stream.Record   // of the label topic
	both   []stream.Record   // of all topics

	values []string // of the records in the most frequent format
	live   int      // records with a value
}

// unsupported reports records that no settings can read.
func (r *recordReport) unsupported(text, remedy string) {
	r.fail(cli.Data, "records", "not supported: "+text, remedy)
}

// share describes n as a share of the sampled records.
func (r *recordReport) share(n int) string {
	if !r.whole {
		return fmt.Sprintf("%d of %d sampled records", n, len(r.recs))
	} else if n == len(r.recs) {
		return fmt.Sprintf("all %d records", n)
	}
	return fmt.Sprintf("%d of the %d records", n, len(r.recs))
}

// run reads the records with the user's settings, then with others, and reports the
// first settings that work.
func (r *recordReport) run(ctx context.Context) {
	byFormat := map[format]int{}
	formats := make([]format, len(r.recs))
	for i := range r.recs {
		formats[i] = formatOf(&r.recs[i])
		byFormat[formats[i]]++
	}
	tombstones := byFormat[formatTombstone]
	delete(byFormat, formatTombstone)
	r.live = len(r.recs) - tombstones
	if r.live == 0 {
		r.unsupported(fmt.Sprintf("all %d records are tombstones, which have a key and no value", tombstones), "write the examples as values")
		return
	}
	change, notes := map[string]string{}, []string(nil)
	if tombstones > 0 && !r.SkipTombstones {
		change["tombstones"] = "skip"
		notes = append(notes, r.share(tombstones)+" are tombstones (no value), which have to be skipped")
	}
	if empty := slices.IndexFunc(r.labels, func(l stream.Record) bool { return l.Value == nil }); empty >= 0 && !r.SkipTombstones {
		change["tombstones"] = "skip"
		notes = append(notes, stream.At(&r.labels[empty], errors.New("a label is a tombstone (no value): such have to be skipped")).Error())
	}
	main := slices.MaxFunc(slices.Sorted(maps.Keys(byFormat)), func(a, b format) int { return cmp.Compare(byFormat[a], byFormat[b]) })
	for i := range r.recs {
		if formats[i] == main {
			r.values = append(r.values, string(r.recs[i].Value))
		}
	}
	asSet := r.read(ctx, settings{codec: r.Codec, options: r.Format, task: r.Learner.Task, change: change, notes: notes})
	ours := main == formatModel || main == formatDeadLetter
	matches := string(main) == r.Codec || codec.Schematic(r.Codec) && !ours || main == formatUnknown
	switch {
	case errors.Is(asSet.err, context.DeadlineExceeded):
		r.unavailable("records", "the schema registry did not answer in time", "")
		return
	case matches && asSet.usable(r):
		r.report(asSet, asSet)
		r.join(ctx, asSet)
		return
	case codec.Schematic(r.Codec) && !ours:
		text, _ := asSet.problem(r)
		r.unsupported(text, "check --schema-registry and --label")
		return
	case !few(r.live-byFormat[main], r.live):
		var list []string
		for _, f := range slices.Sorted(maps.Keys(byFormat)) {
			list = append(list, fmt.Sprintf("%d %s", byFormat[f], f))
		}
		r.unsupported("the formats are mixed: "+strings.Join(list, ", "), "write the records of each format to a topic of its own; or if the format has changed, begin after that with --start TIME")
		return
	case main == formatUnknown:
		r.unsupported(fmt.Sprintf("%s are in no format that a codec reads, such as %s", r.share(byFormat[main]), shown(r.values[0])), r.remedy(main))
		return
	case !main.readable():
		r.unsupported(fmt.Sprintf("%s look like %s, which codec %s does not read", r.share(byFormat[main]), main, r.Codec), r.remedy(main))
		return
	}
	failed := asSet
	for _, s := range r.alternatives(main, change, notes) {
		found := r.read(ctx, s)
		if found.usable(r) {
			r.report(found, asSet)
			r.join(ctx, found)
			return
		}
		if s.task == r.Learner.Task {
			failed = found
		}
	}
	r.unsupported(failed.problem(r))
}

// alternatives lists settings to try if the user's settings do not read records of
// the format: its codec, the labels as found, and a regression.
func (r *recordReport) alternatives(main format, change map[string]string, notes []string) (list []settings) {
	if string(main) != r.Codec {
		change["codec"] = string(main)
	}
	with := func(labels string, task algos.Task) {
		s := settings{codec: string(main), options: r.Format, task: task, change: maps.Clone(change), notes: slices.Clone(notes)}
		s.options.Labels = labels
		if main == formatCSV {
			csv := &s.options.CSV
			if comma := codec.GuessSeparator(r.values, csv.Comma); comma != csv.Comma {
				csv.Comma, s.change["csv-separator"] = comma, string(comma)
			}
			if task == algos.Regress && csv.LabelColumn == "" && s.options.Label == "" {
				s.labelColumn("last")
			}
		}
		if task != r.Learner.Task {
			s.change["task"] = string(task)
			if spec, err := registry.Lookup(r.Learner.Learner); err != nil || !slices.Contains(spec.Tasks, task) {
				s.change["learner"], s.change["preset"], s.change["set"] = "online", "", ""
			}
			s.notes = append(s.notes, "the labels are quantities, which take a regression")
		}
		list = append(list, s)
	}
	with(r.Format.Labels, r.Learner.Task)
	if r.Learner.Task != algos.Regress {
		if r.Format.Labels != codec.Auto {
			with(codec.Auto, r.Learner.Task)
		}
		with("", algos.Regress)
	}
	return list
}
