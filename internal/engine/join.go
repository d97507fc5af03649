package engine

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// Join says that labels come later, or on a topic of their own; see trainer.Join.
//
// The result is the same as if the two topics were joined before training, however they
// interleave and however late labels are, provided that no label comes after the label of
// an example more than Window later, no example comes after the example of a label more
// than Window later, and everything waiting fits into memory: see joinBytes. Only the order
// differs where labels overtake one another: see joiner.
//
// A key names one example. Of several labels with the same key the first counts.
// Examples that share a key share its label, as when a producer has sent a record
// twice. A label that came with the example is never replaced.
type Join struct {
	// Topic is that of the labels. If it is empty and By is not, labels come in later records of the
	// topics of examples: a record with a label is a label, any other an example.
	Topic string
	// Window is from 1 to MaxJoinWindow. That many examples and labels always fit.
	Window int
	By     string
	Field  string
	// Missing is the label, as text, of examples whose own has not come by then, or when the
	// stream has ended; empty: they have none.
	Missing string
}

// MaxJoinWindow bounds Join.Window, maxKey the length of a key in bytes. More than
// Window examples wait only while they take at most joinBytes, and more labels only up
// to joinLabels, which take about as much. Within these limits, what is given up does not
// depend on how far one topic is read ahead of the other.
const (
	MaxJoinWindow = 1 << 24
	maxKey        = 1024
	joinBytes     = 64 << 20
	joinLabels    = 1 << 19
)

// badKey reports whether a value of Join.By has an empty name.
func badKey(by string) bool {
	one, other, two := strings.Cut(by, "=")
	return by != "" && one == "" || two && other == "" || strings.HasSuffix(one, "header:") || strings.HasSuffix(other, "header:")
}

// Used reports whether labels are joined with examples.
func (j Join) Used() bool { return j.Topic != "" || j.By != "" }

// Validate returns an error if j makes no sense.
func (j Join) Validate() error {
	switch {
	case !j.Used() && j.Window != 0:
		return errors.New("join: a window, but no topic of labels")
	case j.Topic == "" && (j.Field != "" || strings.Contains(j.By, "=")):
		return errors.New("join: labels on the topics of the examples have key and label in the same fields")
	case badKey(j.By):
		return fmt.Errorf("join: by %q, want key, header:NAME, the name of a field, or two of these with = between them", j.By)
	case j.Used() && (j.Window < 1 || j.Window > MaxJoinWindow):
		return fmt.Errorf("join: the window is %d, want 1 to %d", j.Window, MaxJoinWindow)
	}
	return nil
}

// A JoinKey says where a record has its join key.
type JoinKey struct {
	// Header is the name of a header, or empty.
	Header string
	// Field is the field of the value, or empty. Without both it is the key of the
	// record, or the field id if it has none.
	Field string
}

// Keys returns where examples and labels have their keys.
func (j Join) Keys() (examples, labels JoinKey) {
	of := func(s string) (k JoinKey) {
		if name, ok := strings.CutPrefix(s, "header:"); ok {
			k.Header = name
		} else if s != "key" {
			k.Field = s
		}
		return k
	}
	by, other, differ := strings.Cut(j.By, "=")
	if !differ {
		other = by
	}
	return of(by), of(other)
}

// Of returns the key of a record that was decoded into x; "" if it has none.
func (k *JoinKey) Of(r *stream.Record, x *stream.Example) string {
	switch {
	case k.Header != "":
		for i := range r.Headers {
			if r.Headers[i].Key == k.Header {
				return string(r.Headers[i].Value)
			}
		}
		return ""
	case k.Field == "" && len(r.Key) > 0:
		return string(r.Key)
	}
	return x.ID
}

// DelayBounds are the inclusive upper bounds of the histogram of label delays; a last
// bucket holds larger delays. A delay is the number of examples that arrived between
// an example and its label.
var DelayBounds = [...]uint64{0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000}

// Delays is a histogram of label delays, see DelayBounds.
type Delays [len(DelayBounds) + 1]uint64

func (d *Delays) add(delay uint64) {
	i := 0
	for i < len(DelayBounds) && delay > DelayBounds[i] {
		i++
	}
	d[i]++
}

// Sum returns the number of delays counted.
func (d *Delays) Sum() (n uint64) {
	for _, v := range d {
		n += v
	}
	return n
}

// JoinStats counts labels, and the examples that waited for them, by outcome.
type JoinStats struct {
	// Early labels arrived before their example, Joined ones after it and in time.
	Early  uint64
	Joined Delays
	// Late labels arrived after their example had been learned from without a
	// label. The example is remembered for the next Window such examples.
	Late Delays
	// Orphans are labels for a key that no example had, or whose example is no longer
	// remembered; Duplicates are labels for a key that already had one.
	Orphans, Duplicates uint64
	// Missing counts the examples whose label has not come.
	Missing uint64
	// Examples and Labels are the numbers waiting now.
	Examples, Labels uint64
}

// joined counts the labels that were used, late those that were not.
func (s *JoinStats) joined() uint64 { return s.Early + s.Joined.Sum() }
func (s *JoinStats) late() uint64   { return s.Late.Sum() + s.Orphans + s.Duplicates }

// joiner is the state of a join. Examples and labels are numbered 1, 2, 3… in order
// of arrival.
//
// Examples leave in order of arrival: the oldest one as soon as it has its label, or
// when an example more than window younger has received one. An example that has its
// label still waits for the older ones. So where no label overtakes another, what is
// learned, and in which order, does not depend on how the topics interleave.
//
// Where some labels take long or never come, all examples would wait as long as window allows. So
// once an example has waited for long, compared with those that got their labels (patience), it is
// parked: those behind it may go first, and it follows as soon as its label has come.
type joiner struct {
	window     uint64
	missing    *float64 // the label of examples whose own has not come; nil: they have none
	delay      uint64   // without a label topic: how many more examples must arrive before one leaves
	seq        uint64   // examples that have arrived
	labelled   uint64   // the youngest example that has received its label here
	bytes      int      // memory of waiting examples
	most       int      // joinBytes, or less in tests
	mostLabels int      // joinLabels

	examples queue[waiting]
	parked   []parked          // older than all of examples, in order of arrival; the first has not left
	live     int               // parked examples that have not left
	due      []uint64          // parked examples that have received their label, in order
	overtook overtakings       // of the labels that came after their example
	patience uint64            // the younger examples that may receive their labels before an example is parked
	open     map[string]uint64 // key → newest example waiting for a label
	labels   queue[label]      // the newest labels, all with different keys
	known    map[string]uint64 // key → label
	missed   queue[missing]    // the newest examples that left without a label
	gone     map[string]uint64 // key → newest of missed
	stats    JoinStats         // except for Examples and Labels
	unused   uint64            // labels that have met no example yet
}

// waiting is an example in the join. It may already have its label.
type waiting struct {
	x    *stream.Example
	key  string // "" if it needs no label
	same uint64 // the next older waiting example with this key, or 0
	// pred is the model's prediction when the example arrived; noPrediction if learning
	// had not begun or the example did not have to wait.
	pred prediction
	// published is the prediction then by the latest published version; nil if not
	// measured. It is not part of the state.
	published *promote.Forecast
	answer    *Answer // still to be completed; nil if there is none
}

// parked is example n; it has left if it is nil.
type parked struct {
	n uint64
	waiting
}

// overtakings counts labels by how many examples later the youngest one was that had received its
// label before: singly up to 3, then in four classes for each doubling.
type overtakings [96]uint64

func (o *overtakings) add(n uint64) {
	e := max(bits.Len64(n), 3) - 3
	o[min(4*e+int(n>>e), len(o)-1)]++
}

// patience returns half of what at most one label in five exceeds; false if there are too few labels to
// tell. The longer an example waits for the older ones, the older the model that is published. Without
// any patience, examples would be learned from as their labels come: where the labels of one class
// take longer, the newest examples would all be of the others.
func (o *overtakings) patience() (uint64, bool) {
	var sum, above uint64
	for _, n := range o {
		sum += n
	}
	i := len(o) - 1
	for ; i > 0 && above+o[i] <= sum/5; i-- {
		above += o[i]
	}
	e := max(i/4-1, 0)
	return (uint64(i-4*e+1)<<e - 1) / 2, sum >= 100
}

type label struct {
	key  string
	y    float64
	used bool
}

type missing struct {
	key     string
	example uint64
}

func newJoiner(window, delay int) *joiner {
	return &joiner{window: uint64(window), delay: uint64(delay), patience: uint64(window), most: joinBytes, mostLabels: joinLabels, open: map[string]uint64{}, known: map[string]uint64{}, gone: map[string]uint64{}}
}

// example adds an example.
func (j *joiner) example(x *stream.Example, key string) {
	w := waiting{x: x, pred: noPrediction}
	if j.delay == 0 && !x.Labelled && key != "" {
		w.key = key
	}
	n := j.examples.last() + 1
	if w.key != "" {
		if i, ok := j.known[key]; ok {
			l := j.labels.at(i)
			// The label came first. It stays known until window more labels have
			// come, for further examples with the key.
			x.Y, x.Labelled = l.y, true
			j.labelled = n
			if !l.used {
				l.used = true
				j.unused--
				j.stats.Early++
				j.forget(i)
			}
		} else {
			// Examples with the same key form a linked list from the newest to the
			// oldest, so that a label finds them all without a search.
			w.same = j.open[key]
			j.open[key] = n
		}
	}
	j.examples.push(w)
	j.bytes += w.bytes()
}

// bytes returns the approximate memory of a waiting example.
func (w *waiting) bytes() int { return w.x.Bytes() + len(w.key) }

// free reports whether there is no label to wait for.
func (w *waiting) free() bool { return w.x.Labelled || w.key == "" }

// newest returns the example added last.
func (j *joiner) newest() *waiting { return j.examples.at(j.examples.last()) }

// at returns waiting example n, nil if it has left.
func (j *joiner) at(n uint64) *waiting {
	if n > j.examples.popped {
		return j.examples.at(n)
	}
	i := sort.Search(len(j.parked), func(i int) bool { return j.parked[i].n >= n })
	if i == len(j.parked) || j.parked[i].n != n || j.parked[i].x == nil {
		return nil
	}
	return &j.parked[i].waiting
}

// all returns the waiting examples, in order of arrival.
func (j *joiner) all() iter.Seq[*waiting] {
	return func(yield func(*waiting) bool) {
		for i := range j.parked {
			if p := &j.parked[i]; p.x != nil && !yield(&p.waiting) {
				return
			}
		}
		for i := range j.examples.len() {
			if !yield(&j.examples.items[j.examples.head+i]) {
				return
			}
		}
	}
}

// len returns the number of waiting examples.
func (j *joiner) len() int { return j.live + j.examples.len() }

// waits reports whether an example that arrives now will have a label, or has one
// already, but cannot be learned from at once. Such an example needs a prediction
// now.
func (j *joiner) waits(x *stream.Example, key string) bool {
	switch {
	case x.Labelled:
		return j.delay > 0 || j.examples.len() > 0
	case key == "" || j.delay > 0:
		return false
	}
	_, known := j.known[key]
	return !known || j.examples.len() > 0
}

// label adds a label.
func (j *joiner) label(key string, y float64) {
	if _, ok := j.known[key]; ok {
		j.stats.Duplicates++
		return
	}
	l := label{key: key, y: y}
	// Label every waiting example with the key. The reported delay is the oldest
	// example's, which has waited longest.
	oldest, before := uint64(0), j.labelled
	j.labelled = max(j.labelled, j.open[key])
	for n := j.open[key]; ; {
		w := j.at(n)
		if w == nil {
			break
		}
		w.x.Y, w.x.Labelled = y, true
		if n <= j.examples.popped {
			j.due = slices.Insert(j.due, 0, n)
		}
		oldest, n = n, w.same
	}
	if oldest > 0 {
		l.used = true
		delete(j.open, key)
		j.stats.Joined.add(j.examples.last() - oldest)
		j.overtaken(max(before, oldest) - oldest)
	} else if n, ok := j.gone[key]; ok {
		// Its example has been learned from without a label. Learning it again with one
		// would count it twice, so the label is only counted as late.
		example := j.missed.at(n).example
		j.stats.Late.add(j.examples.last() - example)
		j.overtaken(max(before, example) - example)
		return
	} else {
		j.unused++
	}
	j.labels.push(l)
	j.known[key] = j.labels.last()
	met := uint64(0)
	if l.used {
		met = j.labels.last()
	}
	j.forget(met)
}

// forget drops the oldest labels that need not be remembered any longer. met is the label
// that has just met an example, or 0.
func (j *joiner) forget(met uint64) {
	for n := uint64(j.labels.len()); n > j.window+1; n-- {
		oldest := j.labels.popped + 1
		if !j.labels.at(oldest).used && met <= oldest+j.window && n <= uint64(j.mostLabels) {
			return
		}
		j.dropLabel()
	}
}

func (j *joiner) dropLabel() {
	l := j.labels.pop()
	delete(j.known, l.key)
	if !l.used {
		j.unused--
		j.stats.Orphans++
	}
}

// overtaken counts a label that was overtaken by n.
func (j *joiner) overtaken(n uint64) {
	j.overtook.add(n)
	j.setPatience()
}

// setPatience sets patience from the labels so far.
func (j *joiner) setPatience() {
	j.patience = j.window
	if n, ok := j.overtook.patience(); ok {
		j.patience = min(n, j.window)
	}
}

// crowded reports whether the examples take more memory than they may.
func (j *joiner) crowded() bool { return j.bytes > j.most && uint64(j.len()) > j.window+1 }

// ready reports whether an example need not wait any longer.
func (j *joiner) ready() bool {
	if j.delay > 0 {
		return uint64(j.examples.len()) > j.delay
	}
	patience := j.patience
	if j.missing != nil { // an example without a label has to be told from one that waits
		patience = j.window
	}
	for j.examples.len() > 0 {
		n := j.examples.popped + 1
		if j.examples.at(n).free() {
			return true
		}
		if j.labelled <= n+patience && !(j.crowded() && j.live == 0) {
			break
		}
		j.parked = append(j.parked, parked{n, j.examples.pop()})
		j.live++
	}
	return len(j.due) > 0 || j.expired()
}

// expired reports whether the oldest parked example leaves without a label.
func (j *joiner) expired() bool {
	return j.live > 0 && (j.labelled > j.parked[0].n+j.window || j.crowded())
}

// following returns the number of the example that next takes out.
func (j *joiner) following() uint64 {
	head := j.examples.popped + 1
	switch {
	case len(j.due) > 0:
		return j.due[0]
	case j.live == 0 || !j.expired() && j.examples.len() > 0 && j.at(head).free():
		return head
	}
	return j.parked[0].n
}

// next takes out the example that leaves next, or if none need leave, the oldest; there must be one.
func (j *joiner) next() waiting {
	n := j.following()
	w, early := *j.at(n), j.crowded()
	j.bytes -= w.bytes()
	if n > j.examples.popped {
		j.examples.pop()
	} else {
		*j.at(n) = waiting{}
		for j.live--; len(j.parked) > 0 && j.parked[0].x == nil; {
			j.parked = j.parked[1:]
		}
	}
	if len(j.due) > 0 {
		j.due = j.due[1:]
	}
	if w.x.Labelled {
		return w
	}
	j.stats.Missing++
	if w.key == "" {
		return w
	}
	if j.missing != nil && !early { // otherwise its label may still come
		w.x.Y, w.x.Labelled = *j.missing, true
	}
	if j.open[w.key] == n {
		delete(j.open, w.key)
	}
	// Remember the key for a while, to tell a late label from one without an
	// example.
	j.missed.push(missing{w.key, n})
	j.gone[w.key] = j.missed.last()
	if uint64(j.missed.len()) > j.window {
		old := j.missed.pop()
		if j.gone[old.key] == j.missed.popped {
			delete(j.gone, old.key)
		}
	}
	return w
}

// end drops the remaining labels when a bounded stream has ended and all examples
// have been taken out.
func (j *joiner) end() {
	for j.labels.len() > 0 {
		j.dropLabel()
	}
}

// queue is a FIFO queue whose elements are numbered from 1 in the order of push.
type queue[T any] struct {
	items  []T
	head   int    // index of the oldest element in items
	popped uint64 // number of elements taken out so far
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

// last returns the number of the newest element.
func (q *queue[T]) last() uint64 { return q.popped + uint64(q.len()) }

// at returns element n, which must be in the queue. The pointer is valid until the
// next push or pop.
func (q *queue[T]) at(n uint64) *T { return &q.items[q.head+int(n-q.popped-1)] }

func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

func (q *queue[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero
	q.head++
	q.popped++
	if 2*q.head >= len(q.items) && q.head >= 32 || q.head == len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}
