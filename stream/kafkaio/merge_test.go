package kafkaio

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// mergeOracle is the definition of the ordered merge: of the next records of
// all partitions the smallest by (timestamp, topic, partition), again and
// again.
func mergeOracle(parts map[stream.Partition][]stream.Record) []stream.Record {
	var out []stream.Record
	next := map[stream.Partition]int{}
	for {
		var best *stream.Record
		for p, recs := range parts {
			if next[p] == len(recs) {
				continue
			}
			r := &recs[next[p]]
			if best == nil || r.Time.Before(best.Time) || r.Time.Equal(best.Time) &&
				(r.Topic < best.Topic || r.Topic == best.Topic && r.Partition < best.Partition) {
				best = r
			}
		}
		if best == nil {
			return out
		}
		next[stream.Partition{Topic: best.Topic, ID: best.Partition}]++
		out = append(out, *best)
	}
}

// timeline makes n records for the partitions of the topics in order of
// appending. Appended at time a, a record has a timestamp in (a − late, a].
// With late 0 timestamps repeat, also across partitions.
func timeline(rng *rand.Rand, topics []string, partitions, n int, late int64) []stream.Record {
	var out []stream.Record
	offsets := map[stream.Partition]int64{}
	now := int64(1_600_000_000_000)
	burst := stream.Partition{}
	for i := range n {
		if i == 0 || rng.IntN(4) == 0 { // stay with a partition for a while
			burst = stream.Partition{Topic: topics[rng.IntN(len(topics))], ID: int32(rng.IntN(partitions))}
		}
		now += rng.Int64N(3)
		if rng.IntN(50) == 0 {
			now += 2 * late
		}
		ts := now
		if late > 0 {
			ts -= rng.Int64N(late)
		}
		r := rec(burst.Topic, burst.ID, ts, fmt.Sprint("record ", i))
		r.Offset = offsets[burst]
		offsets[burst]++
		out = append(out, r)
	}
	return out
}

func byPartition(recs []stream.Record) map[stream.Partition][]stream.Record {
	m := map[stream.Partition][]stream.Record{}
	for _, r := range recs {
		p := stream.Partition{Topic: r.Topic, ID: r.Partition}
		m[p] = append(m[p], r)
	}
	return m
}

func sameOrder(t *testing.T, got, want []stream.Record) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("got %d records, want %d", len(got), len(want))
		}
		if a, b := fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", want[i]); a != b {
			t.Fatalf("record %d:\n got %s\nwant %s", i, a, b)
		}
	}
}

// produceInPieces appends the records in order, piece by piece. A piece holds
// records of one partition only: a broker appends to several partitions in an
// order of its own, and a fetch may fall in between.
func produceInPieces(t *testing.T, brokers []string, rng *rand.Rand, recs []stream.Record) {
	c := kafkatest.Client(t, brokers)
	for len(recs) > 0 {
		n, most := 1, min(len(recs), 1+rng.IntN(60))
		for n < most && recs[n].Topic == recs[0].Topic && recs[n].Partition == recs[0].Partition {
			n++
		}
		kafkatest.ProduceWith(t, c, recs[:n]...)
		recs = recs[n:]
	}
}

// The order of a bounded stream is a function of the partitions' contents:
// neither the size of fetches nor restarts at arbitrary places change it,
// however disordered the timestamps are.
func TestOrderedIsReproducible(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		topics := []string{kafkatest.Topic(t, brokers, 3, nil), kafkatest.Topic(t, brokers, 3, nil)}
		recs := timeline(rng, topics, 3, 600, []int64{0, 1, 20, 100_000}[seed])
		produceInPieces(t, brokers, rng, recs)
		parts := byPartition(recs)
		want := mergeOracle(parts)
		stop := stream.Offsets{}
		for p, rs := range parts {
			stop[p] = int64(len(rs))
		}
		var late uint64
		var newest time.Time
		for i := range want {
			if want[i].Time.Before(newest) {
				late++
			} else {
				newest = want[i].Time
			}
		}
		for run := range 4 {
			var got []stream.Record
			at := stream.Offsets(nil)
			for len(got) < len(want) {
				s := open(t, SourceOptions{Config: config(brokers), Topics: topics, Merge: MergeOrdered, StopAt: stop, Offsets: at,
					FetchMaxBytes: []int{1, 500, 3000, 0}[rng.IntN(4)]})
				if at == nil {
					at = s.Start()
				}
				n := len(want) - len(got)
				if run > 0 {
					n = 1 + rng.IntN(n)
				}
				part := take(t, s, n)
				if run > 0 && len(part) > n {
					part = part[:n] // what a crash loses
				}
				for _, r := range part {
					at[stream.Partition{Topic: r.Topic, ID: r.Partition}] = r.Offset + 1
				}
				got = append(got, part...)
				if run == 0 && s.Late() != late {
					t.Errorf("seed %d: %d late records, want %d", seed, s.Late(), late)
				}
				s.Close()
			}
			t.Logf("seed %d run %d", seed, run)
			sameOrder(t, got, want)
		}
	}
}

// The same holds for an endless stream that is read, with restarts, while it
// is written, as long as no record is later than Lateness.
func TestOrderedLive(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	const late = 3_600_000 // far beyond what the test takes, so that the clock plays no part
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 2))
		topic := kafkatest.Topic(t, brokers, 4, nil)
		recs := timeline(rng, []string{topic}, 4, 500, late)
		want := mergeOracle(byPartition(recs))
		// A last record for everybody lets go of those before.
		var last []stream.Record
		for p := range int32(4) {
			last = append(last, rec(topic, p, recs[len(recs)-1].Time.UnixMilli()+10*late, "the end"))
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			produceInPieces(t, brokers, rand.New(rand.NewPCG(seed, 3)), append(recs, last...))
		}()
		var got []stream.Record
		at := stream.Offsets(nil)
		for len(got) < len(want) {
			s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Merge: MergeOrdered, Offsets: at,
				Lateness: late * time.Millisecond, MaxWait: 20 * time.Millisecond, FetchMaxBytes: []int{1, 1000, 0}[rng.IntN(3)]})
			if at == nil {
				at = s.Start()
			}
			n := min(1+rng.IntN(200), len(want)-len(got))
			part := take(t, s, n)[:n]
			for _, r := range part {
				at[stream.Partition{Topic: r.Topic, ID: r.Partition}] = r.Offset + 1
			}
			got = append(got, part...)
			s.Close()
		}
		<-written
		t.Logf("seed %d", seed)
		sameOrder(t, got, want)
	}
}

// A partition that has nothing holds the others until a timestamp says that it
// will not.
func TestOrderedHoldsByTimestamp(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 2, nil)
	const hour = 3_600_000
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Merge: MergeOrdered, Lateness: time.Hour, MaxWait: 10 * time.Millisecond})
	put := func(partition int32, ms, offset int64) stream.Record {
		r := rec(topic, partition, ms, "x")
		r.Offset = offset
		kafkatest.Produce(t, brokers, r)
		return r
	}
	a := put(0, 0, 0)
	b := put(0, 2*hour, 1)
	sameOrder(t, take(t, s, 1), []stream.Record{a}) // b is two hours later
	c := put(1, 3*hour/2, 0)
	sameOrder(t, take(t, s, 1), []stream.Record{c}) // b still has to wait for partition 1
	d := put(1, 3*hour, 1)
	sameOrder(t, take(t, s, 1), []stream.Record{b}) // now d is known to be next
	e := put(0, 5*hour, 2)
	sameOrder(t, take(t, s, 1), []stream.Record{d})
	if s.Late() != 0 {
		t.Errorf("%d records called late", s.Late())
	}
	// Partition 1 is told to go on where it had passed: late, and delivered.
	f := put(1, hour, 2)
	sameOrder(t, take(t, s, 1), []stream.Record{f})
	if s.Late() != 1 {
		t.Errorf("%d late records, want 1", s.Late())
	}
	_ = e
}

// Where no newer timestamp comes, the clock lets the last records go.
func TestOrderedIdlePartition(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 3, nil)
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Merge: MergeOrdered, Lateness: 40 * time.Millisecond})
	recs := fill(t, brokers, topic, 2, 3)
	want := mergeOracle(byPartition(recs))
	sameOrder(t, take(t, s, len(want)), want)
}

// What a fetch finds says something about the time when it was sent, not when
// its answer came: a record may have been appended in between.
func TestOrderedMarks(t *testing.T) {
	s := &Source{most: deliverMax}
	s.opt.Merge = MergeOrdered
	s.merge = newMerger(10 * time.Millisecond)
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := newFetcher(position{id: stream.Partition{Topic: "t", ID: 0}}, start)
	q := newFetcher(position{id: stream.Partition{Topic: "t", ID: 1}}, start)
	s.merge.fetchers = []*partitionFetcher{p, q}
	answered := func(p *partitionFetcher, end int64, sent mark, now time.Time, recs ...stream.Record) {
		if len(recs) > 0 {
			p.next = recs[len(recs)-1].Offset + 1
			p.queue = append(p.queue, fetchResponse{recs: recs})
		}
		p.end = end
		s.merge.fetched(p, recs, sent, now)
	}
	taken := func() int { return len(s.takeOrdered(nil)) }
	early := mark{s.merge.newest, at(1)} // q is asked…
	r := func(offset, ms int64) stream.Record { r := rec("t", 0, ms, ""); r.Offset = offset; return r }
	answered(p, 3, early, at(2), r(0, 100), r(1, 105), r(2, 110))
	answered(q, 0, early, at(30)) // …and answers late that it has nothing
	if n := taken(); n != 0 {
		t.Fatalf("%d records passed a partition that was asked before they came", n)
	}
	answered(q, 7, mark{110, at(3)}, at(4)) // 7 records are there, not fetched yet
	if n := taken(); n != 0 {
		t.Fatalf("%d records passed a partition that is not at its end", n)
	}
	q.next = 7
	answered(q, 7, mark{110, at(5)}, at(6))
	if n := taken(); n != 1 {
		t.Fatalf("%d records are 10 ms before the newest, want 1", n)
	}
	answered(q, 7, mark{110, at(11)}, at(12))
	if n := taken(); n != 0 {
		t.Fatalf("%d records passed 9 ms after they were seen", n)
	}
	answered(q, 7, mark{110, at(12)}, at(13))
	if n := taken(); n != 2 {
		t.Fatalf("%d records passed 10 ms after they were seen, want 2", n)
	}
}
