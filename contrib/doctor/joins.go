package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// joined is the result of joining the sampled labels.
type joined struct {
	examples, labels int             // without later labels of the same example
	distinct         int             // keys of examples
	ahead            int             // examples before the first label
	example, label   string          // the first keys
	y                float64         // of the first label
	differ           bool            // the labels are not all the same
	after            []time.Duration // between an example and its label
	behind           []int           // number of examples between them
	overtaken        []int           // how much younger an example with an earlier label may be
}

// match joins the records, which are in the order of their timestamps.
func (r *recordReport) match(ctx context.Context, examples, labels stream.Decoder, by trainer.Join) (j joined) {
	type side struct {
		n  int
		at time.Time
	}
	ofExample, ofLabel := engine.Join(by).Keys()
	type seen struct {
		n       int
		first   string          // key
		waiting map[string]side // for the other side
	}
	x, y := seen{waiting: map[string]side{}}, seen{waiting: map[string]side{}}
	youngest, done := 0, map[string]bool{}
	for i := range r.both {
		rec := &r.both[i]
		var ex stream.Example
		dec, from, this, other := examples, ofExample, &x, &y
		if r.Labels != "" && rec.Topic == r.Labels {
			dec, from = labels, ofLabel
		}
		if rec.Value == nil || stream.DecodeRecord(ctx, dec, nil, rec, &ex) != nil {
			continue // they have been reported
		}
		key := from.Of(rec, &ex)
		if r.Labels == "" && ex.Labelled || r.Labels != "" && rec.Topic == r.Labels {
			this, other = &y, &x
		}
		if r.Labels == "" && done[key] {
			continue // a row that has changed again
		}
		if this.n++; this == &y && y.n == 1 {
			j.ahead, j.y = x.n, ex.Y
		}
		j.differ = j.differ || this == &y && (ex.Y != j.y || ex.Class != "")
		now := side{this.n, rec.Time}
		this.first = cmp.Or(this.first, key)
		match, ok := other.waiting[key]
		if !ok || key == "" || this == &x && y.n-match.n > by.Window { // then the label is given up
			this.waiting[key] = now
			continue
		}
		delete(other.waiting, key)
		done[key] = true
		example, label := now, match
		if this == &y {
			example, label = match, now
		}
		youngest = max(youngest, example.n)
		j.after, j.overtaken = append(j.after, label.at.Sub(example.at)), append(j.overtaken, youngest-example.n)
		j.behind = append(j.behind, x.n-example.n)
	}
	j.examples, j.example, j.labels, j.label, j.distinct = x.n, x.first, y.n, y.first, len(x.waiting)+len(done)
	return j
}

// quantile returns the q-quantile of v, which it sorts.
func quantile[T cmp.Ordered](v []T, q float64) T {
	slices.Sort(v)
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

// join reports how many labels that come later match an example, how late they arrive, and the
// settings that this requires.
func (r *recordReport) join(ctx context.Context, out *reading) {
	const subject = "join"
	by := r.Learner.Join
	dec, err := codec.New(out.codec, out.found)
	labels, err2 := codec.NewLabels(out.found)
	if err != nil || err2 != nil || r.Labels != "" && len(r.labels) == 0 {
		return // they were created successfully before
	}
	if by.By == "" && r.Labels == "" {
		// Rows of a table, for example, that get their label when they change.
		j := r.match(ctx, dec, labels, trainer.Join{By: "key"})
		if met := len(j.after); met > 0 && 2*met > j.labels && 20*j.distinct > 19*j.examples {
			r.warn(subject, fmt.Sprintf("%d of %d records with a label have the key or id of an earlier one without, as when a row of a table changes: other fields may have changed too. With --join, the earlier one is learned from", met, j.labels), r.Train(map[string]string{"join": "key"}))
		}
		return
	}
	j := r.match(ctx, dec, labels, by)
	met := len(j.after)
	text := fmt.Sprintf("%d of %d labels meet one of %d examples", met, j.labels, j.examples)
	if met == 0 {
		r.fail(cli.Data, subject, fmt.Sprintf("%s: the first example has the key %s, the first label %s", text, shown(j.example), shown(j.label)),
			"say with --join what both have in common: a FIELD, FIELD=OTHER if labels call it otherwise, header:NAME or key")
		return
	}
	text += fmt.Sprintf("; a label comes %v after its example (99 %%: %v), and %d more examples meanwhile (99 %%: %d)",
		quantile(j.after, 0.5).Round(time.Millisecond), quantile(j.after, 0.99).Round(time.Millisecond), quantile(j.behind, 0.5), quantile(j.behind, 0.99))
	if 10*j.ahead >= 9*j.examples && j.examples > 10 {
		text += ". By their timestamps the topics were filled one after the other, so these are not the delays of live data"
	}
	if !j.differ && j.labels > 1 && r.Learner.Join.Missing == "" {
		r.fail(cli.Data, subject, text+"; all labels are the same, so there is nothing to tell apart",
			"if the examples without a label are of another class, name it with --missing-label, such as false")
		return
	}
	window, need := r.Learner.Join.Window, quantile(j.overtaken, 0.999)
	switch {
	case need > window:
		r.warn(subject, fmt.Sprintf("%s; of the examples, some have their label up to %d examples later than a younger one, so that --join-window %d loses labels", text, need, window),
			r.Train(map[string]string{"join-window": fmt.Sprint(min(2*need, trainer.MaxJoinWindow))}))
	case r.Source.Merge == kafkaio.MergeArrival:
		r.warn(subject, text+"; with --merge arrival, one topic is read ahead of the other, and predictions are not those of the time when an example came",
			r.Train(map[string]string{"merge": ""}))
	case 20*(j.labels-met) > j.labels:
		r.warn(subject, fmt.Sprintf("%s; --join-window %d and --merge ordered, as by default, are enough for these, but the others belong to no example that there is", text, window), "")
	case r.Learner.Join.Missing != "" && window > 4*max(need, 50):
		r.warn(subject, fmt.Sprintf("%s; those without one are learned from when an example %d younger has its label (--join-window); %d is enough", text, window, max(2*need, 100)),
			r.Train(map[string]string{"join-window": fmt.Sprint(max(2*need, 100))}))
	default:
		r.ok(subject, "%s; --join-window %d and --merge ordered, the default, are enough: it takes %d", text, window, need)
	}
}
