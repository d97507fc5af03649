package scs

import (
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// TestWindowKeepsTheNewest: under full=window the sample is, after each step,
// the newest examples that have been taken in, in order, and the model follows
// labels that have changed sides.
func TestWindowKeepsTheNewest(t *testing.T) {
	const size, chunk, n = 300, 50, 2000
	l, err := Spec.New(algos.Env{Seed: 1}, map[string]string{
		"gamma": "1", "c": "10", "initial": "64", "max_sample": "300", "t_max": "50", "full": "window",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	side := 1.0
	full := false
	for seq := uint64(1); seq <= n; seq++ {
		if seq == n/2 {
			side = -1
		}
		x := []float32{r.Float32()*2 - 1, r.Float32()*2 - 1}
		y := side
		if (x[0] > 0) != (x[1] > 0) {
			y = -side
		}
		if _, err := algos.Feed(t.Context(), l, &stream.Example{Seq: seq, X: stream.Vec{Val: x}, Y: y, Labelled: true}); err != nil {
			t.Fatal(err)
		}
		s := l.(*Learner)
		if s.classifiers[0].p == nil {
			continue
		}
		m := s.Len()
		for i := 1; i < m; i++ {
			if s.Seq(i) != s.Seq(i-1)+1 {
				t.Fatalf("after %d: the sample holds %d behind %d", seq, s.Seq(i), s.Seq(i-1))
			}
		}
		full = full || m == size
		if full && m != size || s.Seq(m-1)+chunk < seq {
			t.Fatalf("after %d: the sample is %d…%d", seq, s.Seq(0), s.Seq(m-1))
		}
	}
	if !full {
		t.Fatal("the sample never filled up")
	}
	right := 0
	for range 400 {
		x := []float32{r.Float32()*2 - 1, r.Float32()*2 - 1}
		if (l.Model().Decision(stream.Vec{Val: x}) > 0) == ((x[0] > 0) != (x[1] > 0)) {
			right++
		}
	}
	if right < 360 {
		t.Errorf("%d of 400 right after the labels changed sides", right)
	}
}

// TestFullSampleKeepsSupportVectors: a full sample that takes draws in under
// full=replace keeps what it has learned, however long the stream goes on, as
// long as they are few.
func TestFullSampleKeepsSupportVectors(t *testing.T) {
	const size = 256
	l, err := Spec.New(algos.Env{Seed: 1}, map[string]string{"gamma": "4", "c": "100", "initial": "32", "max_sample": "256"})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	draw := func() (stream.Vec, float64) { // four squares by four
		x := []float32{r.Float32() * 4, r.Float32() * 4}
		return stream.Vec{Val: x}, float64(2*((int(x[0])+int(x[1]))%2) - 1)
	}
	for seq := uint64(1); seq <= 6000; seq++ {
		x, y := draw()
		before := map[uint64]bool{}
		s := l.(*Learner)
		if s.classifiers[0].p != nil && s.classifiers[0].p.Len() == size {
			for i, a := range s.classifiers[0].p.Alpha {
				if a != 0 {
					before[s.Seq(i)] = true
				}
			}
		}
		if _, err := algos.Feed(t.Context(), l, &stream.Example{Seq: seq, X: x, Y: y, Labelled: true}); err != nil {
			t.Fatal(err)
		}
		gone := len(before)
		for i := range s.Len() {
			if before[s.Seq(i)] {
				gone--
			}
		}
		if len(before) <= size/2 && gone > 0 {
			t.Fatalf("after %d: %d of %d support vectors left a sample of %d that had room for them", seq, gone, len(before), size)
		}
	}
	right := 0
	for range 1000 {
		if x, y := draw(); l.Model().Decision(x)*y > 0 {
			right++
		}
	}
	if right < 930 {
		t.Errorf("%d of 1000 right", right)
	}
}

// TestWindowOfRepresentatives: under full=window examples that stand for three
// records each take the room of three, from the time on when they come.
func TestWindowOfRepresentatives(t *testing.T) {
	l, err := Spec.New(algos.Env{Seed: 1}, map[string]string{
		"gamma": "1", "c": "10", "initial": "64", "max_sample": "300", "t_max": "50", "full": "window",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	for seq := uint64(1); seq <= 1500; seq++ {
		x := []float32{r.Float32()*2 - 1, r.Float32()*2 - 1}
		e := &stream.Example{Seq: seq, X: stream.Vec{Val: x}, Y: 1, Labelled: true}
		if x[0]+0.2*r.Float32() > 0.1 {
			e.Y = -1
		}
		if seq > 600 {
			e.Weight, e.Represents = 3, 3
		}
		if _, err := algos.Feed(t.Context(), l, e); err != nil {
			t.Fatal(err)
		}
		s := l.(*Learner)
		if s.classifiers[0].p == nil {
			continue
		}
		sum := 0
		for i := range s.Len() {
			if i > 0 && s.Seq(i) != s.Seq(i-1)+1 {
				t.Fatalf("after %d: the sample holds %d behind %d", seq, s.Seq(i), s.Seq(i-1))
			}
			if sum++; s.Seq(i) > 600 {
				sum += 2
			}
		}
		if sum > 300 || seq > 1200 && sum < 290 {
			t.Fatalf("after %d: a sample of %d stands for %d records", seq, s.Len(), sum)
		}
		if seq == 1000 { // counts are part of the state
			data, err := l.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
		}
	}
}
