package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// trust decides whether the growing machine speaks for the panel, and the others
// only listen. The panel's vote is the better one where the stream changes, by far;
// where it does not, the machine that has learned from all of it is, by a little,
// and its model is smaller. So the machine is trusted unless the panel has made
// significantly fewer errors of late, or has made fewer just now, as it does when
// the stream changes.
type trust struct {
	short  float64 // errors of the machine less those of the panel, over the last few examples
	long   float64 // and over the last few thousand
	square float64 // variance of long if neither is better
}

const (
	shortMemory = 16   // examples after which one counts half
	longMemory  = 4096 // likewise
	alarm       = 2    // short at which the machine is not trusted
	doubt       = 1    // standard errors of long above which it is not
	sure        = 2    // where examples have weights: standard errors below 0 that long must be
)

// compare takes note of who was wrong on so many examples.
func (t *trust) compare(machine, panel bool, n float64) {
	var d float64
	switch {
	case machine && !panel:
		d = n
	case panel && !machine:
		d = -n
	}
	t.note(d)
}

// note takes note of by how much the machine was worse.
func (t *trust) note(d float64) {
	t.short = float64(math.Exp2(-1./shortMemory)*t.short) + d
	fade := math.Exp2(-1. / longMemory)
	t.long = float64(fade*t.long) + d
	t.square = float64(fade*fade*t.square) + float64(d*d)
}

// given reports whether the machine is trusted, once it is ripe: once it has
// learned from enough examples. Where a class is rare, and examples are weighed for it, there is little to
// be significantly worse by, and the machine orders badly what the others order well:
// then it must be better.
func (t *trust) given(ripe, weighted bool) bool {
	most := float64(doubt)
	if weighted {
		most = -sure
	}
	return ripe && t.short < alarm && t.long <= most*math.Sqrt(t.square)
}

func (t *trust) fields(f *state.Fields) {
	f.Float64("short", &t.short)
	f.Float64("long", &t.long)
	f.Float64("square", &t.square)
	if f.Decoding() && f.Err() == nil && !(math.Abs(t.short)+math.Abs(t.long)+t.square < math.Inf(1) && t.square >= 0) {
		f.Fail("long", fmt.Errorf("%g, %g, %g", t.short, t.long, t.square))
	}
}
