package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// judged returns what is found about records of these values, read as json.
func judged(values ...string) (list []Finding) {
	d := &checkup{report: func(f Finding) { list = append(list, f) }, Plan: &Plan{
		Topics: []string{"t"}, Codec: "json", Format: codec.Options{Labels: "pm1", CSV: codec.CSVOptions{Comma: ','}},
		Learner: &trainer.Options{Learner: "scs", Task: algos.Classify}, Source: &kafkaio.SourceOptions{},
		Train: func(change map[string]string) string { return fmt.Sprint("train with ", change) },
	}}
	s := &study{checkup: d, whole: true, fresh: true, codec: d.Codec, format: d.Format, task: algos.Classify, change: map[string]string{}, labels: tally{}}
	for i, v := range values {
		s.recs = append(s.recs, stream.Record{Topic: "t", Offset: int64(i), Value: []byte(v)})
	}
	s.judge()
	s.order()
	return list
}

// FuzzJudge: whatever the records hold, there is one finding about them, and a
// command line or the words "not supported" in it if it is a failure.
func FuzzJudge(f *testing.F) {
	for _, v := range []string{
		`{"x":[1,2],"y":1}`, `{"x":{"1":2},"y":"a"}`, `{"y":null,"x":null}`, `{"a":{"b c":[1,{"d":"2"}]},"label":[1]}`, `[]`, `[[1]]`, `""`, `"a,b"`, `{"payload":{"op":"c","after":null}}`,
		"+1 1:2", "1", "?", "1,2,a", ",", ";;", "a|b", "\t\t", "1;2,5", "x y z", "\x00\x00\x00\x00\x01{", "\x80", "\x81\xa1x\x90", "\x81\xa1y\xc3", "\x1f\x8b", "\xff\xfe", "\"", "'", "{'", "{\"x\":[NaN", "-",
	} {
		f.Add(v, `{"x":[1,2],"y":-1}`, uint8(3))
		f.Add(v, v, uint8(1))
	}
	f.Fuzz(func(t *testing.T, a, b string, every uint8) {
		var values []string
		for i := range 60 {
			v := a
			if i%(int(every)+1) == 0 {
				v = b
			}
			values = append(values, v)
		}
		about := 0
		for _, found := range judged(values...) {
			if found.Severity == Failure || found.Severity == Fine || strings.Contains(found.Text, "every label") {
				about++
			}
			if found.Severity == Failure && !strings.Contains(found.Text+found.Remedy, "not supported") && !strings.HasPrefix(found.Remedy, "train with map[") {
				t.Errorf("%q, %q: no advice in %+v", a, b, found)
			}
		}
		if about == 0 {
			t.Errorf("%q, %q: nothing is found", a, b)
		}
	})
}

// Advice never has a class, or a large part of the records, dead-lettered.
func TestNoClassIsDropped(t *testing.T) {
	var zero, half, rare []string
	for i := range 200 {
		zero = append(zero, fmt.Sprintf(`{"x":[%d,1],"y":%d}`, i, i%2))
		v := `{"x":[1,1],"y":1}`
		if i%2 == 0 {
			v = `{"x":["a",1],"y":-1}`
		}
		half = append(half, v)
		v = `{"x":[1,1],"y":-1}`
		if i%50 == 0 {
			v = `{"x":[NaN,1],"y":1}`
		}
		rare = append(rare, v)
	}
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"0 and 1":                {zero, "train with map[labels:01]"},
		"a class that is broken": {half, "not supported"},
		"a rare one":             {rare, "too many of the class 1"},
	} {
		list := judged(c.values...)
		if all := fmt.Sprint(list); len(list) == 0 || !strings.Contains(all, c.want) || strings.Contains(all, "tolerance") {
			t.Errorf("%s: %s", name, all)
		}
	}
}
