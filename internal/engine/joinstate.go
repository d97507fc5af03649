package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// moreFields describes features that are in a state only if they are configured, so
// that states without them keep the bytes that they had before the features
// existed.
func (e *Engine) moreFields(f *state.Fields) {
	var kept string
	var j Join
	var delay int
	defer e.admission.fields(f)
	if !f.Decoding() {
		kept, j, delay = e.cfg.Kept, e.cfg.Join, e.cfg.Delay
		if kept == "" && e.join == nil {
			return
		}
	}
	// Next looks at the name of the next field without reading it, so a state that
	// lacks these fields is read as one where nothing is configured.
	if !f.Decoding() || f.Next("labels_kept") {
		f.String("labels_kept", &kept)
		f.String("labels_topic", &j.Topic)
		f.Int("join_window", &j.Window)
	}
	if f.Next("delay") || !f.Decoding() && delay > 0 {
		f.Int("delay", &delay)
	}
	if f.Next("join_by") || !f.Decoding() && (j.By != "" || j.Field != "") {
		f.String("join_by", &j.By)
		f.String("labels_field", &j.Field)
	}
	if f.Next("missing_label") || !f.Decoding() && j.Missing != "" {
		f.String("missing_label", &j.Missing)
	}
	if f.Err() != nil {
		return
	}
	if kept != e.cfg.Kept {
		f.Fail("labels_kept", &MismatchError{"labels_kept", kept, e.cfg.Kept})
	}
	if want := e.cfg.Join.Missing; j.Missing != want {
		f.Fail("missing_label", &MismatchError{"missing_label", j.Missing, want})
		j.Missing = want
	}
	if j != e.cfg.Join {
		f.Fail("join", &MismatchError{"join", j.text(), e.cfg.Join.text()})
	}
	if delay != e.cfg.Delay {
		f.Fail("delay", &MismatchError{"delay", fmt.Sprint(delay), fmt.Sprint(e.cfg.Delay)})
	}
	if e.join != nil && f.Err() == nil {
		f.Group("join", e.join.fields)
	}
}

// text returns the topic, the window, the join key and the field of the label, or "".
func (j Join) text() string {
	if !j.Used() {
		return ""
	}
	return fmt.Sprintf("%s %d %s %s", cmp.Or(j.Topic, "-"), j.Window, cmp.Or(j.By, "key"), j.Field)
}

func (j *joiner) fields(f *state.Fields) {
	f.Uint64("seq", &j.seq)
	f.Uint64("examples_gone", &j.examples.popped)
	// The queues are stored as lists, in columns where possible. Maps and counters
	// that follow from them are not stored: restore rebuilds them, so that they
	// cannot contradict the queues.
	var waits []waiting
	var xs []*stream.Example
	for w := range j.all() {
		waits, xs = append(waits, *w), append(xs, w.x)
	}
	columns.Examples(f, "examples", &xs)
	f.List("keys", len(waits), 1, func(n int) { waits = make([]waiting, n) }, func(f *state.Fields, i int) {
		f.String("key", &waits[i].key)
	})
	numbers := j.parkedFields(f)
	f.Uint64("labels_gone", &j.labels.popped)
	labels := j.labels.items[j.labels.head:]
	f.List("labels", len(labels), 12, func(n int) { labels = make([]label, n) }, func(f *state.Fields, i int) {
		f.String("key", &labels[i].key)
		f.Float64("y", &labels[i].y)
		f.Bool("used", &labels[i].used)
	})
	f.Uint64("missed_gone", &j.missed.popped)
	missed := j.missed.items[j.missed.head:]
	f.List("missed", len(missed), 3, func(n int) { missed = make([]missing, n) }, func(f *state.Fields, i int) {
		f.String("key", &missed[i].key)
		f.Uint64("example", &missed[i].example)
	})
	j.stats.fields(f)
	j.predictionFields(f, waits)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	f.Fail("examples", j.restore(xs, numbers, waits, labels, missed))
}

// parkedFields describes the numbers of the parked examples, which are the first ones, and what
// parks them. A state from before any label has none.
func (j *joiner) parkedFields(f *state.Fields) (numbers []uint64) {
	for _, p := range j.parked {
		if p.x != nil {
			numbers = append(numbers, p.n)
		}
	}
	if !f.Next("parked") && (f.Decoding() || len(numbers) == 0 && j.overtook == overtakings{}) {
		return nil
	}
	counts := j.overtook[:]
	f.Uint64s("parked", &numbers)
	f.Uint64("labelled", &j.labelled)
	f.Uint64s("overtook", &counts)
	if f.Decoding() && f.Err() == nil {
		if len(counts) != len(j.overtook) {
			f.Fail("overtook", errJoin)
			return nil
		}
		j.overtook = overtakings(counts)
		j.setPatience()
	}
	return numbers
}

// predictionFields describes the predictions of waiting examples; they are in a
// state only if there are any.
func (j *joiner) predictionFields(f *state.Fields, waits []waiting) {
	decisions, some := make([]float64, len(waits)), false
	var scores []float64
	for i := range waits {
		if f.Decoding() {
			waits[i].pred = noPrediction
		}
		decisions[i] = waits[i].pred.f
		some = some || waits[i].pred.known()
		scores = append(scores, waits[i].pred.scores...)
	}
	if !f.Next("told") && (f.Decoding() || !some) {
		return
	}
	f.Float64s("told", &decisions)
	// The number of scores is stored for each example: it is the number of classes
	// when it arrived.
	counts := make([]int32, len(waits))
	for i := range waits {
		counts[i] = int32(len(waits[i].pred.scores))
	}
	if f.Next("told_scores") || !f.Decoding() && len(scores) > 0 {
		f.Float64s("told_scores", &scores)
		f.Int32s("told_counts", &counts)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(decisions) != len(waits) || len(counts) != len(waits) {
		f.Fail("told", errJoin)
		return
	}
	// The scores of all examples are one list; cut it into pieces by the counts.
	// The capacity is limited, so that appending to one piece cannot overwrite the
	// next.
	for i := range waits {
		n := int(counts[i])
		if n < 0 || n > len(scores) {
			f.Fail("told", errJoin)
			return
		}
		waits[i].pred.f = decisions[i]
		if n > 0 {
			waits[i].pred.scores = scores[:n:n]
		}
		scores = scores[n:]
	}
}

func (s *JoinStats) fields(f *state.Fields) {
	f.Uint64("early", &s.Early)
	f.Uint64("orphans", &s.Orphans)
	f.Uint64("duplicates", &s.Duplicates)
	f.Uint64("missing", &s.Missing)
	for i := range s.Joined {
		f.Uint64("joined", &s.Joined[i])
		f.Uint64("late", &s.Late[i])
	}
}

var errJoin = errors.New("the state of the join contradicts itself")

// restore fills the queues and rebuilds the indices that follow from them.
func (j *joiner) restore(xs []*stream.Example, numbers []uint64, waits []waiting, labels []label, missed []missing) error {
	const most = 1 << 62 // bound on counters
	if len(xs) != len(waits) || len(numbers) > len(waits) || j.delay > 0 && uint64(len(xs)) > j.delay+2 || uint64(len(labels)) > max(j.window+1, uint64(j.mostLabels)) || uint64(len(missed)) > j.window ||
		j.examples.popped > most || j.labels.popped > most || j.missed.popped > most {
		return errJoin
	}
	// Oldest first, as they arrived, so that open ends up with the newest example
	// of each key and same links the older ones.
	for i := range waits {
		w := &waits[i]
		w.x = xs[i]
		j.bytes += w.bytes()
		n := j.examples.popped + uint64(i-len(numbers)) + 1
		if i < len(numbers) {
			if n = numbers[i]; n == 0 || n > j.examples.popped || i > 0 && n <= numbers[i-1] || w.key == "" {
				return errJoin
			}
			if w.x.Labelled {
				j.due = append(j.due, n)
			}
		}
		if w.key != "" && !w.x.Labelled {
			w.same = j.open[w.key]
			j.open[w.key] = n
		} else if w.key != "" {
			j.labelled = max(j.labelled, n)
		}
		if i < len(numbers) {
			j.parked = append(j.parked, parked{n, *w})
		}
	}
	j.live = len(numbers)
	j.examples.items, j.examples.head = waits[len(numbers):], 0
	for i, l := range labels {
		if _, ok := j.known[l.key]; ok || l.key == "" {
			return errJoin
		}
		j.known[l.key] = j.labels.popped + uint64(i) + 1
		if !l.used {
			j.unused++
		}
	}
	j.labels.items, j.labels.head = labels, 0
	for i, m := range missed {
		if m.example > j.examples.popped {
			return errJoin
		}
		j.gone[m.key] = j.missed.popped + uint64(i) + 1
	}
	j.missed.items, j.missed.head = missed, 0
	return nil
}
