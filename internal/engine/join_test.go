package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// labelItem is a record of the topic of labels.
func labelItem(key string, y float64, offset int64) Item {
	return Item{Partition: stream.Partition{Topic: "labels"}, Offset: offset, Key: key, Example: stream.Example{Y: y, Labelled: true}}
}

// apart takes the labels off items and puts them into records of their own, up
// to late examples behind theirs or up to early before it.
func apart(items []Item, r *rand.Rand, late, early int) (mixed []Item) {
	type event struct {
		at   float64
		item Item
	}
	var events []event
	for i, it := range items {
		it.Key = fmt.Sprintf("k%d", i)
		if it.Err == nil && it.Example.Labelled {
			d := float64(r.IntN(late+early+1)-early) + 0.5
			if r.IntN(10) == 0 {
				d = float64(late) + 0.5 // the largest delay, more often than by chance
			}
			label := labelItem(it.Key, it.Example.Y, 0)
			label.Example.Class = it.Example.Class
			events = append(events, event{float64(i) + d, label})
			it.Example.Labelled, it.Example.Y, it.Example.Class = false, 0, ""
		}
		events = append(events, event{float64(i), it})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	n := int64(0)
	for _, e := range events {
		if e.item.Partition.Topic == "labels" {
			e.item.Offset = n
			n++
		}
		mixed = append(mixed, e.item)
	}
	return mixed
}

// parts returns what must be equal to a run over the joined file: all but the
// offsets, the counters of records and the join itself.
func parts(t *testing.T, e *Engine) (learner, model, counts, measures []byte) {
	t.Helper()
	_, learner, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	p := e.Predictor()
	p.Probability, p.Softmax = nil, nil // part of the measures here
	if model, err = p.AppendBinary(nil); err != nil {
		t.Fatal(err)
	}
	counts, err = state.Append(nil, func(f *state.Fields) {
		f.Uint64("steps", &e.steps)
		f.Uint64("labelled", &e.counts.Labelled)
		f.Uint64("unlabelled", &e.counts.Unlabelled)
		f.Uint64("learned", &e.counts.Learned)
		f.Uint64("sampled_out", &e.counts.SampledOut)
		f.Uint64("dead", &e.counts.Dead)
	})
	if err != nil {
		t.Fatal(err)
	}
	measures, err = state.Append(nil, func(f *state.Fields) {
		e.preq.Fields(f)
		e.curve.Fields(f)
		if e.calib != nil {
			e.calib.Fields(f)
		}
		if e.soft != nil {
			e.soft.Fields(f)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return learner, model, counts, measures
}

// learned returns the indices of the examples of mixed, which apart has made, in the order in which the
// reference of the join lets them go, and how many of them go before the end. Those that cannot be
// used, whose features are fewer, come last.
func learned(mixed []Item, window int) (order []int, before int) {
	ref := &reference{window: window, most: joinBytes, labelMost: joinLabels}
	dim := 0
	for _, it := range mixed {
		dim = max(dim, len(it.Example.X.Val))
	}
	var unusable []int
	for _, it := range mixed {
		ref.release(false)
		var i int
		fmt.Sscanf(it.Key, "k%d", &i)
		switch {
		case it.Partition.Topic == "labels":
			ref.label(it.Key, it.Example.Y)
		case it.Err == nil && len(it.Example.X.Val) == dim:
			ref.example(refExample{n: uint64(i), key: it.Key})
		default:
			unusable = append(unusable, i)
		}
	}
	ref.release(false)
	before = len(ref.out)
	ref.finish()
	for _, x := range ref.out {
		order = append(order, int(x.n))
	}
	return append(order, unusable...), before
}

// TestJoinEqualsOffline: labels come 0 to 4,000 records after their examples, or before them. The model
// must be that of the joined file, to the bit, wherever the run is cut, stored and restored. Where no
// label comes after the next example (seed 3), the file has the order in which the examples came, and
// what is measured is the same too.
func TestJoinEqualsOffline(t *testing.T) {
	for _, learner := range []string{"online", "sbp", "scs", "tsgs3vm", "adaptive"} {
		n, late, early := 500, 150, 70
		switch learner {
		case "online": // where so many take the least time
			n, late, early = 6000, 4000, 2000
		case "scs":
			n = 1000
		}
		t.Run(learner, func(t *testing.T) {
			items := rings(n, 1, true) // a few are unlabelled, a few cannot be used
			cfg := config(t, learner)
			if learner == "tsgs3vm" { // smaller, to be quick
				cfg.Options = map[string]string{"features": "256", "tuning": "0"}
			}
			plain := cfg
			cfg.Join = Join{Topic: "labels", Window: late}
			var hash uint64
			for seed := range uint64(4) {
				if learner == "adaptive" && seed < 3 { // it judges itself by what it predicted, which it is told later here
					continue
				}
				r := rand.New(rand.NewPCG(seed, 6))
				mix := r
				if seed == 2 {
					mix = rand.New(rand.NewPCG(1, 6)) // as with seed 1, cut otherwise
				}
				e := newEngine(t, cfg)
				behind := late
				if seed == 3 {
					behind = 0
				}
				mixed := apart(items, mix, behind, early*int(min(seed, 1)))
				if seed == 3 { // nobody waits for a label that never comes
					has := map[string]bool{}
					for _, it := range mixed {
						has[it.Key] = has[it.Key] || it.Partition.Topic == "labels"
					}
					for i, it := range mixed {
						if !has[it.Key] {
							mixed[i].Key = ""
						}
					}
				}
				file := items
				if seed < 3 {
					file = nil
					order, _ := learned(mixed, late)
					for _, i := range order {
						file = append(file, items[i])
					}
				}
				offline := newEngine(t, plain)
				consume(t, offline, slices.Clone(file))
				finish(t, offline)
				l, m, counts, measures := parts(t, offline)
				for left := mixed; len(left) > 0; {
					cut := min(len(left), 1+r.IntN(n/3))
					consume(t, e, left[:cut])
					left = left[cut:]
					e = interrupted(t, e, cfg, r)
				}
				finish(t, e)
				l2, m2, counts2, measures2 := parts(t, e)
				// The states of the others have the numbers of their examples, in order of arrival.
				if (seed == 3 || learner == "online") && !bytes.Equal(l, l2) || !bytes.Equal(m, m2) || !bytes.Equal(counts, counts2) {
					t.Errorf("seed %d: learner equal %v, model %v, counts %v", seed, bytes.Equal(l, l2), bytes.Equal(m, m2), bytes.Equal(counts, counts2))
				}
				if bytes.Equal(measures, measures2) != (seed == 3) {
					t.Errorf("seed %d: measures equal %v", seed, seed != 3)
				}
				c := e.Counts()
				// The labels of examples that cannot be used meet nobody.
				if c.Joined != offline.Counts().Labelled || c.Late != uint64(len(mixed)-n)-c.Joined || c.Consumed != uint64(len(mixed)) || c.Pending != 0 {
					t.Errorf("seed %d: counts %+v, joined file %+v", seed, c, offline.Counts())
				}
				if seed == 2 && hashOf(t, e) != hash {
					t.Errorf("the state depends on where the run was cut")
				}
				hash = hashOf(t, e)
			}
		})
	}
}

// TestLabelsInLaterRecords: labels that come in later records of the examples' topic, with features
// that do not count, are like those of a topic of their own, wherever the run is cut.
func TestLabelsInLaterRecords(t *testing.T) {
	cfg := config(t, "adaptive")
	cfg.Join = Join{Topic: "labels", Window: 200}
	r := rand.New(rand.NewPCG(2, 9))
	var mixed []Item
	for i, it := range apart(rings(700, 1, true), r, 60, 0) {
		if it.Err == nil && (it.Partition.Topic != "labels" || i%29 > 0) { // some labels never come
			mixed = append(mixed, it)
		}
	}
	e := newEngine(t, cfg)
	consume(t, e, slices.Clone(mixed))
	finish(t, e)
	want, model, counts, measures := parts(t, e)

	for i := range mixed {
		it := &mixed[i]
		if it.Partition.Topic == "labels" {
			it.Example.X = stream.Vec{Val: []float32{float32(i), 1, 2}}
		}
		it.Partition, it.Offset = stream.Partition{Topic: "t"}, int64(i)
	}
	cfg.Join = Join{By: "id", Window: 200}
	var in ingest
	if in.joinLabels(cfg.Join, nil); !in.join || in.apart(&stream.Record{}) {
		t.Error("a record without a topic is not read as an example")
	}
	later := newEngine(t, cfg)
	for left := mixed; len(left) > 0; {
		cut := min(len(left), 1+r.IntN(300))
		consume(t, later, left[:cut])
		left, later = left[cut:], interrupted(t, later, cfg, r)
	}
	finish(t, later)
	got, model2, counts2, measures2 := parts(t, later)
	if !bytes.Equal(got, want) || !bytes.Equal(model, model2) || !bytes.Equal(counts, counts2) || !bytes.Equal(measures, measures2) {
		t.Error("not what labels on a topic of their own give")
	}
	if a, b := e.Join(), later.Join(); *a != *b || a.Joined.Sum() < 500 || a.Missing == 0 {
		t.Errorf("%+v, want %+v", b, a)
	}
}

// reference is the join as the documentation of Join has it, without indices:
// every decision looks at all that came before.
type reference struct {
	window    int
	missing   float64 // the label of examples without one; 0: none
	most      int     // bytes of examples that may wait, beyond the window
	labelMost int     // labels that may wait, beyond the window
	xs        []refExample
	labels    []label // those that counted
	from      int     // the first of them that is remembered
	gone      []int   // examples that went on without a label, but have a key
	next      int     // the first of xs that has not been parked or let go
	out       []refExample
	overtook  overtakings
	stats     JoinStats
}

type refExample struct {
	n        uint64
	key      string
	y        float64
	labelled bool
	joined   bool // its label came from another record
	parked   bool
	left     bool
}

// bytes is what an example without features takes.
func (x refExample) bytes() int { return 104 + 2*len(x.key) }

// kept returns the labels that are still remembered.
func (r *reference) kept() []label { return r.labels[r.from:] }

// forget drops labels from the oldest on: those beyond the window that have met an
// example, or were overtaken by one that has.
func (r *reference) forget() {
	for len(r.kept()) > r.window+1 {
		used := -1
		for i, l := range r.kept() {
			if l.used {
				used = i
			}
		}
		if !r.kept()[0].used && used <= r.window && len(r.kept()) <= r.labelMost {
			return
		}
		if !r.kept()[0].used {
			r.stats.Orphans++
		}
		r.from++
	}
}

// overtaken returns by how much example n is older than the youngest that has received its label.
func (r *reference) overtaken(n int) int {
	for i, x := range slices.Backward(r.xs) {
		if x.joined {
			return i - n
		}
	}
	return -1
}

// waiting returns the examples that wait.
func (r *reference) waiting() (list []int) {
	for i, x := range r.xs {
		if !x.left {
			list = append(list, i)
		}
	}
	return list
}

func (r *reference) crowded() bool {
	bytes, list := 0, r.waiting()
	for _, i := range list {
		bytes += r.xs[i].bytes()
	}
	return bytes > r.most && len(list) > r.window+1
}

// leaves returns the example that leaves next, -1 if all have to wait.
func (r *reference) leaves(end bool) int {
	isParked := func(i int) bool { return r.xs[i].parked }
	patience := r.window
	if n, ok := r.overtook.patience(); ok && r.missing == 0 {
		patience = min(patience, int(n))
	}
	for ; r.next < len(r.xs); r.next++ {
		if x := &r.xs[r.next]; x.labelled || x.key == "" {
			break
		}
		if r.overtaken(r.next) <= patience && !(r.crowded() && !slices.ContainsFunc(r.waiting(), isParked)) {
			break
		}
		r.xs[r.next].parked = true
	}
	list := r.waiting()
	for _, i := range list {
		if r.xs[i].parked && r.xs[i].labelled {
			return i
		}
	}
	oldest := slices.IndexFunc(list, isParked)
	switch {
	case oldest >= 0 && (r.overtaken(list[oldest]) > r.window || r.crowded()):
		return list[oldest]
	case r.next < len(r.xs) && (r.xs[r.next].labelled || r.xs[r.next].key == ""):
		r.next++
		return r.next - 1
	case end && len(list) > 0:
		r.next = max(r.next, list[0]+1)
		return list[0]
	}
	return -1
}

func (r *reference) release(all bool) {
	for {
		n := r.leaves(all)
		if n < 0 {
			return
		}
		x := &r.xs[n]
		without := !x.labelled
		if without && x.key != "" && r.missing != 0 && !r.crowded() {
			x.y, x.labelled = r.missing, true
		}
		r.out = append(r.out, refExample{x.n, x.key, x.y, x.labelled, x.joined, false, false})
		x.left = true
		if without {
			r.stats.Missing++
			if x.key != "" {
				r.gone = append(r.gone, n)
			}
		}
	}
}

func (r *reference) example(x refExample) {
	for i, l := range r.kept() {
		if l.key == x.key && !x.labelled {
			x.y, x.labelled, x.joined = l.y, true, true
			if !l.used {
				r.stats.Early++
			}
			r.kept()[i].used = true
			r.forget()
			break
		}
	}
	r.xs = append(r.xs, x)
}

func (r *reference) label(key string, y float64) {
	for _, l := range r.kept() {
		if l.key == key {
			r.stats.Duplicates++
			return
		}
	}
	used := false
	for _, i := range r.waiting() {
		if x := &r.xs[i]; x.key == key && !x.labelled {
			if !used {
				r.stats.Joined.add(uint64(len(r.xs) - 1 - i))
				r.overtook.add(uint64(max(0, r.overtaken(i))))
			}
			x.y, x.labelled, x.joined = y, true, true
			used = true
		}
	}
	if !used {
		last := r.gone[max(0, len(r.gone)-r.window):]
		for _, l := range slices.Backward(last) {
			if r.xs[l].key == key {
				r.stats.Late.add(uint64(len(r.xs) - 1 - l))
				r.overtook.add(uint64(max(0, r.overtaken(l))))
				return
			}
		}
	}
	r.labels = append(r.labels, label{key, y, used})
	r.forget()
}

func (r *reference) finish() {
	r.release(true)
	for _, l := range r.kept() {
		if !l.used {
			r.stats.Orphans++
		}
	}
}

// TestJoinEqualsReference compares the join with its reference on streams in
// which keys repeat, are missing, come in any order and too late, in windows
// small enough for all of that to happen, and large enough for examples to be parked.
func TestJoinEqualsReference(t *testing.T) {
	all, parkedLate := JoinStats{}, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		window := 1 + r.IntN(20)
		ref := &reference{window: window, most: 116 * 2 * window, labelMost: 2 * window}
		bounded := func() *joiner {
			j := newJoiner(window, 0)
			j.most, j.mostLabels = ref.most, ref.labelMost
			if seed%5 == 4 {
				ref.missing = -7
				j.missing = &ref.missing
			}
			return j
		}
		j := bounded()
		var got []refExample
		release := func(end bool) {
			for j.ready() || end && j.len() > 0 {
				if len(j.due) > 0 {
					parkedLate++
				}
				w := j.next()
				got = append(got, refExample{w.x.Seq, w.x.ID, w.x.Y, w.x.Labelled, w.x.Labelled && w.key != "" && w.x.Y != ref.missing, false, false})
			}
		}
		spread := 1 + r.IntN(3*window)
		for i := range 600 * (1 + int(seed%2)) {
			release(false)
			ref.release(false)
			key := ""
			if r.IntN(20) > 0 {
				key = fmt.Sprint(i/2 - r.IntN(spread) + r.IntN(spread))
			}
			isLabel := r.IntN(2) == 0
			if seed%2 == 1 { // most labels are in time
				n, late := i, 4
				if r.IntN(10) == 0 {
					late = spread
				}
				if isLabel {
					n -= r.IntN(late)
				}
				key = fmt.Sprint(n - n%int(1+seed/2%3)) // of one to three examples
			}
			if y := float64(i + 1); isLabel && key != "" {
				j.label(key, y)
				ref.label(key, y)
			} else {
				x := refExample{n: uint64(i), key: key}
				if r.IntN(10) == 0 {
					x.y, x.labelled = y, true
				}
				j.example(&stream.Example{Seq: x.n, ID: key, Y: x.y, Labelled: x.labelled}, key)
				ref.example(x)
			}
			if n := j.len(); n > 2*window+3 || len(j.parked) > 3*window || j.labels.len() > max(window+1, ref.labelMost) || j.missed.len() > window ||
				len(j.open) > n || len(j.known) != j.labels.len() || len(j.gone) > j.missed.len() {
				t.Fatalf("seed %d: %d examples, %d labels, %d missed held with window %d", seed, n, j.labels.len(), j.missed.len(), window)
			}
			if r.IntN(10) == 0 {
				data, err := state.Append(nil, j.fields)
				if err != nil {
					t.Fatal(err)
				}
				j = bounded()
				if err := state.Decode(data, j.fields); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if again, _ := state.Append(nil, j.fields); !bytes.Equal(data, again) {
					t.Fatalf("seed %d: a restored join has another encoding", seed)
				}
			}
		}
		release(true)
		j.end()
		ref.finish()
		if !slices.Equal(got, ref.out) {
			t.Fatalf("seed %d, window %d: examples come out as\n%v, want\n%v", seed, window, got, ref.out)
		}
		if j.stats != ref.stats {
			t.Fatalf("seed %d, window %d: %+v, want %+v", seed, window, j.stats, ref.stats)
		}
		if j.unused != 0 || len(j.open)+len(j.known) != 0 {
			t.Fatalf("seed %d: at the end %d labels are unused, %d keys open", seed, j.unused, len(j.open))
		}
		all.Early, all.Orphans, all.Duplicates = all.Early+j.stats.Early, all.Orphans+j.stats.Orphans, all.Duplicates+j.stats.Duplicates
		all.Joined[0], all.Late[0] = all.Joined[0]+j.stats.Joined.Sum(), all.Late[0]+j.stats.Late.Sum()
	}
	if all.Early == 0 || all.Orphans == 0 || all.Duplicates == 0 || all.Joined[0] == 0 || all.Late[0] == 0 || parkedLate == 0 {
		t.Errorf("not everything has happened: %+v, %d parked examples have got their labels", all, parkedLate)
	}
}

// TestJoinFatesAddUp looks at the counters after every record of a stream with
// all kinds of labels, and at the refusals.
func TestJoinFatesAddUp(t *testing.T) {
	cfg := config(t, "sbp")
	cfg.Join = Join{Topic: "labels", Window: 50}
	r := rand.New(rand.NewPCG(1, 9))
	items := apart(rings(1500, 2, true), r, 80, 60)
	for i := 0; i < len(items); i += 40 { // a second label, or one for nobody
		items = slices.Insert(items, i, labelItem(fmt.Sprintf("k%d", i), 1, 0))
	}
	bad := []Item{labelItem("", 1, 0), labelItem("k1", 0.5, 0), labelItem(strings.Repeat("k", maxKey+1), 1, 0), labelItem("k1", 1, 0)}
	bad[3].Example.Labelled = false
	items = append(bad, items...)
	e := newEngine(t, cfg)
	for i := range items {
		consume(t, e, items[i:i+1])
		if i < len(bad) && (items[i].Err == nil || e.Counts().Dead != uint64(i+1)) {
			t.Errorf("label %d was accepted: %v", i, items[i].Err)
		}
		if i%7 != 0 {
			continue
		}
		settle(t, e)
		c := e.Counts()
		if sum := c.Learned + c.SampledOut + c.Dead + c.Joined + c.Late + c.Pending; sum != c.Consumed || c.Consumed != uint64(i+1) {
			t.Fatalf("after %d records the fates add up to %d: %+v", i+1, sum, c)
		}
	}
	finish(t, e)
	c, s := e.Counts(), e.Join()
	if c.Pending != 0 || c.Learned+c.SampledOut+c.Dead+c.Joined+c.Late != c.Consumed || c.Joined == 0 || c.Late == 0 || c.SampledOut == 0 ||
		s.Late.Sum() == 0 || s.Orphans == 0 || s.Duplicates == 0 || s.Early == 0 || s.Examples+s.Labels != 0 {
		t.Errorf("at the end: %+v %+v", c, s)
	}
	snap := snapshot(t, e)
	meta := map[string]string{}
	for _, kv := range snap.Header.Meta {
		meta[kv[0]] = kv[1]
	}
	if meta["joined"] != fmt.Sprint(c.Joined) || meta["late"] != fmt.Sprint(c.Late) {
		t.Errorf("the header says %v, the engine %+v", meta, c)
	}
}

// TestJoinedStateIsAFunctionOfTheStream: also where labels come too late, the
// state does not depend on where the run is cut.
func TestJoinedStateIsAFunctionOfTheStream(t *testing.T) {
	for _, name := range []string{"sbp", "scs", "online", "adaptive"} {
		t.Run(name, func(t *testing.T) { joinedState(t, name) })
	}
}

func joinedState(t *testing.T, name string) {
	cfg := config(t, name)
	if name == "online" {
		cfg.Scale = "running" // it changes with every example too
	}
	cfg.Join = Join{Topic: "labels", Window: 60}
	items := apart(rings(2500, 5, true), rand.New(rand.NewPCG(3, 3)), 90, 70)
	run := func(most int, r *rand.Rand) (uint64, *JoinStats) {
		e := newEngine(t, cfg)
		for left := slices.Clone(items); len(left) > 0; {
			cut := min(len(left), most)
			if r != nil {
				cut = min(len(left), 1+r.IntN(most))
			}
			consume(t, e, left[:cut])
			left = left[cut:]
			if r == nil || r.IntN(2) == 0 {
				continue
			}
			snap := snapshot(t, e)
			e = newEngine(t, cfg)
			restore(t, e, snap)
		}
		settle(t, e)
		return hashOf(t, e), e.Join()
	}
	want, stats := run(len(items), nil)
	if stats.Late.Sum() == 0 || stats.Missing == 0 || stats.Early == 0 {
		t.Errorf("not everything has happened: %+v", stats)
	}
	for seed := range uint64(2) {
		if got, s := run(200, rand.New(rand.NewPCG(seed, 1))); got != want || *s != *stats {
			t.Errorf("seed %d: state %x, %+v; uncut %x, %+v", seed, got, s, want, stats)
		}
	}
}

// TestOtherJoinIsRefused: a state does not go on under another join, or under
// other labels.
func TestOtherJoinIsRefused(t *testing.T) {
	plain := config(t, "sbp")
	with := func(topic string, window int, kept string) Config {
		c := plain
		c.Join, c.Kept = Join{Topic: topic, Window: window}, kept
		if kept != "" {
			c.Labels = func(uint64) bool { return true }
		}
		return c
	}
	later := plain
	later.Join = Join{By: "key", Window: 10}
	cfgs := []Config{plain, with("labels", 10, ""), with("labels", 11, ""), with("other", 10, ""), later, with("", 0, "100"), with("", 0, "200"), with("labels", 10, "100")}
	for i, made := range cfgs {
		e := newEngine(t, made)
		consume(t, e, rings(300, 1, false))
		snap := snapshot(t, e)
		for k, other := range cfgs {
			err := newEngine(t, other).Restore(snap)
			if i == k {
				if err != nil {
					t.Errorf("configuration %d refuses its own state: %v", i, err)
				}
				continue
			}
			word := "join"
			if made.Kept != other.Kept {
				word = "labels_kept"
			}
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("state of configuration %d under %d: error %v does not name %s", i, k, err, word)
			}
		}
	}
	for _, j := range []Join{{Topic: "labels"}, {Topic: "labels", Window: -1}, {Topic: "labels", Window: MaxJoinWindow + 1}, {Window: 5}, {By: "id"}, {By: "id=key", Window: 5}, {By: "id", Field: "y", Window: 5}, {Topic: "labels", Window: 5, By: "header:"}, {Topic: "labels", Window: 5, By: "id="}, {Topic: "labels", Window: 5, By: "=id"}} {
		c := plain
		c.Join = j
		if _, err := NewEngine(c); err == nil {
			t.Errorf("%+v was accepted", j)
		}
	}
}

// FuzzJoinState: no bytes make a join that panics or grows beyond its bounds.
func FuzzJoinState(f *testing.F) {
	j := newJoiner(5, 0)
	j.most, j.mostLabels = 1<<20, 6
	for i := range 40 {
		if i == 20 {
			j = newJoiner(5, 0)
			j.most, j.mostLabels, j.overtook[1] = 1<<20, 6, 1000 // parks soon
		}
		j.example(&stream.Example{X: stream.Vec{Val: []float32{1}}}, fmt.Sprint(i%7))
		j.label(fmt.Sprint(i%9), 1)
		for j.ready() {
			j.next()
		}
		data, err := state.Append(nil, j.fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j := newJoiner(5, 0)
		j.most, j.mostLabels = 0, 6
		var err error
		alloctest.Check(t, len(data), func() { err = state.Decode(data, j.fields) })
		if err != nil {
			return
		}
		for i := range 30 {
			for j.ready() {
				j.next()
			}
			j.example(&stream.Example{}, fmt.Sprint(i%7))
			j.label(fmt.Sprint(i%9), 1)
			if j.len() > 7 || j.labels.len() > 6 || j.missed.len() > 5 {
				t.Fatalf("%d examples, %d labels, %d missed", j.len(), j.labels.len(), j.missed.len())
			}
		}
		j.end()
	})
}

// TestJoinOfBacklogs: one topic may be read far ahead of the other. What is learned is
// the same as if labels came with their examples, and so are the measures: before there
// is a model, nothing is predicted, so examples that came then are predicted when their
// labels come.
func TestJoinOfBacklogs(t *testing.T) {
	const n = 1500
	cfg := config(t, "adaptive")
	cfg.Scale, cfg.Warmup = "none", 0
	items := rings(n, 1, false)
	inline := newEngine(t, cfg)
	consume(t, inline, slices.Clone(items))
	finish(t, inline)
	l, m, counts, measures := parts(t, inline)
	var examples, labels []Item
	for _, it := range apart(items, rand.New(rand.NewPCG(1, 1)), 0, 0) {
		if it.Partition.Topic == "labels" {
			labels = append(labels, it)
		} else {
			examples = append(examples, it)
		}
	}
	cfg.Join = Join{Topic: "labels", Window: 20}
	for name, order := range map[string][]Item{
		"examples first": slices.Concat(examples, labels),
		"labels first":   slices.Concat(labels, examples),
		"in two parts":   slices.Concat(examples[:n/2], labels, examples[n/2:]),
		"some before":    slices.Concat(examples[:100], labels[:100], examples[100:], labels[100:]),
	} {
		e := newEngine(t, cfg)
		consume(t, e, order)
		finish(t, e)
		l2, m2, counts2, measures2 := parts(t, e)
		if s := e.Join(); s.Missing != 0 || s.Late.Sum()+s.Orphans != 0 || !bytes.Equal(counts, counts2) || !bytes.Equal(l, l2) || !bytes.Equal(m, m2) || !bytes.Equal(measures, measures2) {
			t.Errorf("%s: %+v; equal to inline labels: counts %v, learner %v, model %v, measures %v", name, s, bytes.Equal(counts, counts2), bytes.Equal(l, l2), bytes.Equal(m, m2), bytes.Equal(measures, measures2))
		}
	}
}

// The bounds of the classes of delays are inclusive.
func TestDelayClasses(t *testing.T) {
	for i, bound := range DelayBounds {
		var d Delays
		d.add(bound)
		d.add(bound + 1)
		if d[i] != 1 || d[i+1] != 1 || d.Sum() != 2 {
			t.Errorf("delays of %d and %d are counted as %v", bound, bound+1, d)
		}
	}
}

// TestMissingLabelsDelayNobody: where some labels never come, and some late, the others are learned
// from soon, and the late ones when they come.
func TestMissingLabelsDelayNobody(t *testing.T) {
	cfg := config(t, "adaptive")
	cfg.Join = Join{Topic: "labels", Window: 10_000}
	var items, late []Item
	for i, it := range apart(rings(1500, 1, false), rand.New(rand.NewPCG(1, 1)), 8, 0) {
		if it.Partition.Topic == "labels" && i%40 == 7 {
			late = append(late, it)
		} else if it.Partition.Topic != "labels" || i%50 != 3 {
			items = append(items, it)
		}
	}
	e := newEngine(t, cfg)
	consume(t, e, items)
	settle(t, e)
	labels := uint64(len(items) - 1500)
	if c := e.Counts(); c.Joined != labels || c.Labelled < labels-30 {
		t.Errorf("%d of %d labels are learned from", c.Labelled, labels)
	}
	before := e.Counts().Labelled
	for i, it := range late {
		consume(t, e, []Item{it})
		if settle(t, e); e.Counts().Labelled != before+uint64(i)+1 {
			t.Fatalf("%d examples are learned from after %d late labels, before them %d", e.Counts().Labelled, i+1, before)
		}
	}
	if s := e.Join(); len(late) == 0 || s.Late.Sum()+s.Orphans != 0 || s.Examples != e.Counts().Pending {
		t.Errorf("%d late labels: %+v", len(late), s)
	}
}

// TestOrderOfLateLabels: the order in which examples leave depends on those of the examples and of
// the labels, not on how far the examples are read ahead.
func TestOrderOfLateLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	type label struct {
		at float64
		n  int
	}
	var labels []label
	const n = 3000
	for i := range n {
		if r.IntN(50) > 0 {
			labels = append(labels, label{float64(i) + 60*r.ExpFloat64(), i})
		}
	}
	slices.SortFunc(labels, func(a, b label) int { return cmp.Compare(a.at, b.at) })
	order := func(ahead int) (left []uint64) {
		j, next := newJoiner(10_000, 0), 0
		release := func() {
			for j.ready() {
				left = append(left, j.next().x.Seq)
			}
		}
		for _, l := range labels {
			for ; next < n && float64(next-ahead) <= l.at; next++ {
				j.example(&stream.Example{Seq: uint64(next)}, fmt.Sprint(next))
				release()
			}
			j.label(fmt.Sprint(l.n), 1)
			release()
		}
		return left
	}
	want := order(0)
	if slices.IsSorted(want) || len(want) < len(labels)*9/10 {
		t.Errorf("%d of %d examples leave, in order %v", len(want), len(labels), slices.IsSorted(want))
	}
	for _, ahead := range []int{1, 700, n} {
		if got := order(ahead); !slices.Equal(got, want) {
			t.Errorf("%d examples ahead: another order", ahead)
		}
	}
}

// TestMissingLabelOfClasses: it is one of the classes.
func TestMissingLabelOfClasses(t *testing.T) {
	dec, err := codec.NewLabels(codec.Options{Labels: "a,b,c"})
	if err != nil {
		t.Fatal(err)
	}
	for missing, want := range map[string]float64{"c": 2, "d": -1} {
		cfg := config(t, "online")
		cfg.Signature = codec.Signature{Labels: "a,b,c"}
		cfg.Join = Join{Topic: "labels", Window: 5, Missing: missing}
		e := newEngine(t, cfg)
		if err := e.setMissing(t.Context(), dec); (err == nil) != (want >= 0) || err == nil && *e.join.missing != want {
			t.Errorf("%s: %v, %v", missing, e.join.missing, err)
		}
	}
}

// Four in five labels are overtaken alike: patience is half of that, and no more than a quarter longer.
func TestPatience(t *testing.T) {
	for n := range uint64(100_000) {
		var o overtakings
		for i := range 99 {
			o.add(max(n, uint64(i/80)<<40))
		}
		if _, ok := o.patience(); ok {
			t.Fatal("99 labels are enough")
		}
		o.add(1 << 40)
		if got, ok := o.patience(); !ok || got < n/2 || got > n/2+n/8+1 {
			t.Fatalf("%d: %d, %v", n, got, ok)
		}
	}
}
