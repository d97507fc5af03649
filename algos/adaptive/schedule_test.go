package adaptive

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// TestJudges: all of a version's first 512 examples judge it, and of the later ones so few that
// all in all they count as often as there are examples, none of them for more than the 250
// as which a version counts.
func TestJudges(t *testing.T) {
	for _, c := range []struct{ every, began, judge int }{
		{250, 1000, 250}, {600, 1200, 512 + 44}, {1000, 5000, 512 + 122}, {2500, 10000, 512 + 248}, {20000, 40000, 512 + 2436},
	} {
		s := newSchedule(c.every)
		s.begin(uint64(c.began), changes{})
		var all, judge int
		for seen := c.began; seen < c.began+c.every; seen += 5 {
			xs := make([]*stream.Example, min(5, c.began+c.every-seen))
			for i := range xs {
				xs[i] = &stream.Example{X: stream.Vec{Val: []float32{float32(seen + i)}}}
			}
			some, stands := s.judges(xs, uint64(seen))
			for i, n := range stands {
				if all += int(n); n == 0 {
					continue
				}
				if some[0].Val[0] != xs[i].X.Val[0] {
					t.Fatalf("every %d: example %g, want %g", c.every, some[0].Val[0], xs[i].X.Val[0])
				}
				if some, judge = some[1:], judge+1; n*effective > float64(max(effective, c.every)) {
					t.Errorf("every %d: an example stands for %g", c.every, n)
				}
			}
			if len(some) > 0 {
				t.Fatalf("every %d: %d examples left", c.every, len(some))
			}
		}
		if judge != c.judge || all < c.every-judgeMost || all > c.every+judgeMost {
			t.Errorf("every %d: %d examples judge, for %d; want %d", c.every, judge, all, c.judge)
		}
	}
}

// TestJudgesPeriod: of a stream with a period, all phases judge a version about equally often.
func TestJudgesPeriod(t *testing.T) {
	const began, every = 40000, 20000
	s := newSchedule(every)
	s.begin(began, changes{})
	_, stands := s.judges(slices.Repeat([]*stream.Example{new(stream.Example)}, every), began)
	for _, period := range []int{2, 8, 10, 24, 48, 96} {
		count := make([]int, period)
		for i, n := range stands {
			if i >= judgedFirst && n > 0 {
				count[i%period]++
			}
		}
		if least, most := slices.Min(count), slices.Max(count); 2*least < most {
			t.Errorf("period %d: %d to %d examples of a phase judge", period, least, most)
		}
	}
}

// TestSchedule: when versions begin, on streams with changes at given numbers of examples, which
// are known 40 examples later; the state is stored and read on the way.
func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		name    string
		every   int
		changes []uint64
		end     uint64
		want    []uint64
	}{
		{"no change", 1000, nil, 3000, []uint64{64, 128, 256, 512, 1000, 2000, 3000}},
		{"a change during the first interval", 1000, []uint64{300}, 2000, []uint64{64, 128, 256, 512, 1000, 1704, 2000}},
		{"a change", 1000, []uint64{2000}, 4000, []uint64{64, 128, 256, 512, 1000, 2000, 2064, 2128, 2256, 2512, 3000, 4000}},
		{"two changes", 1000, []uint64{2010, 2450}, 3000, []uint64{64, 128, 256, 512, 1000, 2000, 2064, 2128, 2256, 2512, 2576, 2704, 2960, 3000}},
		{"a long interval", 5000, []uint64{10000}, 15000, []uint64{64, 128, 256, 512, 1024, 2048, 4096, 5000, 10000, 10064, 10128, 10256, 10512, 11024, 12048, 14096, 15000}},
		{"a long interval, many changes", 5000, many(9000, 100, 310), 40000, nil},
		{"a short interval", 150, []uint64{300}, 600, []uint64{64, 128, 150, 300, 348, 396, 450, 600}},
		{"a very short interval", 50, []uint64{200}, 300, []uint64{64, 100, 150, 200, 248, 250, 300}},
	} {
		s := newSchedule(c.every)
		var got []uint64
		early := uint64(0)
		for n := uint64(1); n <= c.end; n++ {
			var now changes
			for _, at := range c.changes {
				if n >= at+40 {
					now = changes{now.cuts + 1, at}
				}
			}
			if n%7 == 0 {
				fields := func(s *schedule) func(f *state.Fields) {
					return func(f *state.Fields) {
						f.Uint64("began", &s.began)
						f.Uint64("next", &s.next)
						s.fields(f)
					}
				}
				data, err := state.Append(nil, fields(&s))
				if err != nil {
					t.Fatal(err)
				}
				s = newSchedule(c.every)
				if err := state.Decode(data, fields(&s)); err != nil {
					t.Fatal(err)
				}
			}
			if s.due(n, now) {
				if n < s.next {
					early++
				}
				s.begin(n, now)
				got = append(got, n)
			}
		}
		if c.want == nil { // then twenty in each interval, and at first those of one more
			if most := 20 + 20*(c.end-9000)/5000; early > most || early+3 < most || s.early != early {
				t.Errorf("%s: %d early versions, %d by its count", c.name, early, s.early)
			}
			continue
		}
		if !slices.Equal(got, c.want) || s.early != early {
			t.Errorf("%s: versions at %d, %d of them early by its count of %d; want %d", c.name, got, early, s.early, c.want)
		}
	}
}

// TestScheduleOfAnotherInterval: a run continues with a shorter interval.
func TestScheduleOfAnotherInterval(t *testing.T) {
	long, short := newSchedule(20000), newSchedule(1000)
	for n := uint64(1); n <= 60000; n++ {
		if long.due(n, changes{}) {
			long.begin(n, changes{})
		}
	}
	data, err := state.Append(nil, long.fields)
	if err != nil {
		t.Fatal(err)
	}
	short.began, short.next = long.began, long.next
	if err := state.Decode(data, short.fields); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for n := uint64(60001); n <= 82000; n++ {
		if short.due(n, changes{1, 60500}) {
			short.begin(n, changes{1, 60500})
			got = append(got, n)
		}
	}
	if len(got) < 4 || got[0] > 62000 || got[len(got)-1] != 82000 {
		t.Errorf("versions at %d", got)
	}
}

// many returns n numbers from start on.
func many(start, step uint64, n int) (list []uint64) {
	for i := range uint64(n) {
		list = append(list, start+i*step)
	}
	return list
}

// TestEarly: after a change point the learner begins a version at its next look, and then
// whenever the sample since has doubled.
func TestEarly(t *testing.T) {
	const every = 500
	for _, task := range []algos.Task{algos.Classify, algos.Regress} {
		a, err := Short.New(algos.Env{Seed: 1, Task: task, PublishEvery: every}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, r := a.(*Learner), rand.New(rand.NewPCG(7, 8))
		early, doubled := 0, 0
		var began uint64
		for i := uint64(1); i <= 6*every; i++ {
			x := &stream.Example{Seq: i, Labelled: true, X: stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}}
			x.Y = math.Copysign(1, float64(x.X.Val[0]))
			if i/(2*every)%2 == 1 {
				x.Y = -x.Y
			}
			before, known := l.Early(), l.plan().cuts
			followOne(t, l, x)
			if l.Early() > before {
				early++
				_, latest := l.ChangePoints()
				c := latest[len(latest)-1]
				sample := c.At - uint64(c.To)
				if l.plan().cuts == known {
					doubled++
					if i-sample < 2*(began-sample) {
						t.Errorf("%s: a version at %d, after one at %d and a change at %d", task, i, began, sample)
					}
				}
			}
			began = l.plan().began
		}
		if early == 0 || doubled == 0 {
			t.Errorf("%s: %d early versions, %d as the sample doubled", task, early, doubled)
		}
		t.Logf("%s: %d early versions, %d as the sample doubled", task, early, doubled)
	}
}
