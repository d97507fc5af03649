package doctor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// reported returns what is found about records of these values, read as json.
func reported(values ...string) []finding { return reportedWith(nil, values...) }

// reportedWith is reported for another plan, and with labels on another topic.
func reportedWith(change func(*recordReport), values ...string) (list []finding) {
	d := &checks{report: func(f finding) { list = append(list, f) }, plan: &plan{contrib.Plan{
		Topics: []string{"t"}, Codec: "json", Format: codec.Options{Labels: "pm1", CSV: codec.CSVOptions{Comma: ','}},
		Learner: &trainer.Options{Learner: "scs", Task: algos.Classify}, Source: &kafkaio.SourceOptions{},
		Train: func(change map[string]string) string { return fmt.Sprint("train with ", change) },
	}}}
	r := &recordReport{checks: d, whole: true, fresh: true}
	for i, v := range values {
		r.recs = append(r.recs, stream.Record{Topic: "t", Offset: int64(i), Value: []byte(v)})
	}
	if change != nil {
		change(r)
	}
	r.run(context.Background())
	return list
}

// FuzzReport: whatever the records hold, there is one finding about them, and a
// command line or the words "not supported" in it if it is a failure.
func FuzzReport(f *testing.F) {
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
		for _, found := range reported(values...) {
			if found.severity == failure || found.severity == fine || strings.Contains(found.Text, "every label") {
				about++
			}
			if found.severity == failure && !strings.Contains(found.Text+found.Remedy, "not supported") && !strings.HasPrefix(found.Remedy, "train with map[") {
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
	var zero, half, rare, mostly, tenth []string
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
		v = `{"x":[1,1],"y":-1}`
		switch i % 50 {
		case 0:
			v = `{"x":[NaN,1],"y":1}`
		case 25:
			v = `{"x":[1,1],"y":1}`
		}
		mostly = append(mostly, v)
		v = fmt.Sprintf(`{"x":[1,1],"y":%d}`, 2*(i%2)-1)
		if i%20 < 2 {
			v = strings.Replace(v, "1,1", "NaN,1", 1)
		}
		tenth = append(tenth, v)
	}
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"0 and 1":                {zero, "train with map[labels:0,1]"},
		"a class that is broken": {half, "not supported"},
		"a rare one":             {rare, "too many of the class 1"},
		"half of a rare one":     {mostly, "too many of the class 1"},
		"a tenth of both":        {tenth, "20 of the first 200 cannot be read as json"},
	} {
		list := reported(c.values...)
		if all := fmt.Sprint(list); len(list) == 0 || !strings.Contains(all, c.want) || strings.Contains(all, "tolerance") {
			t.Errorf("%s: %s", name, all)
		}
	}
}

func TestFormats(t *testing.T) {
	for value, want := range map[string]format{
		`{"x":[1,2],"y":1}`: formatJSON, " {}\n": formatJSON, "\x00\x00\x00\x00\x11{\"x\":[1]}": formatJSON,
		"+1 1:0.5 7:2 # a": formatLibSVM, "1:0.5 2:1": formatLibSVM, "1 qid:3 1:0.5": formatLibSVM,
		"0.5,1,a": formatCSV, `"a";2`: formatCSV, "1\t2": formatCSV,
		"\x81\xa1x\x90": formatMsgpack, "\x81\xa1x": formatUnknown,
		"\x00\x00\x00\x00\x11\x02\x80": formatRegistry, "\x1f\x8b\x08": formatUnknown,
		"": formatEmpty, " \n": formatEmpty, "[1,2]": formatUnknown, "<e a='1,2'/>": formatUnknown, "word": formatUnknown, "\xff\xfe{\x00": formatUnknown,
	} {
		if got := formatOf(&stream.Record{Value: []byte(value)}); got != want {
			t.Errorf("%q looks like %s, want %s", value, got, want)
		}
	}
	if got := formatOf(&stream.Record{Key: []byte("k")}); got != formatTombstone {
		t.Errorf("no value looks like %s", got)
	}
}

// Labels on a topic of their own are looked at for the examples, which have none.
func TestTopicOfLabels(t *testing.T) {
	for _, c := range []struct{ setting, label, other, want string }{
		{codec.Auto, `{"y":"no"}`, `{"y":"yes"}`, "ok records: the first 1 can be read as json"},
		{codec.Auto, `{"z":1}`, `{"z":2}`, "no record of the topic of labels has a field y, label, target, class, outcome: name the label with --labels-field; its first record has the fields z"},
		{"01", "0", `{"y":1}`, "ok records: the first 1 can be read as json"},
		{"no,yes", "no", `{"y":"yes"}`, "ok records: the first 1 can be read as json"},
		{"12", "0", "1", "1 of 2 labels in topic l cannot be read, so that --labels 12 may be wrong: label, y: the label is 0, want 1 or 2 train with map[labels:0,1]"},
	} {
		list := reportedWith(func(r *recordReport) {
			r.Labels, r.Format.Labels = "l", c.setting
			r.Learner.Join = trainer.Join{Topic: "l", Window: 10}
			r.labels = []stream.Record{{Topic: "l", Key: []byte("a"), Value: []byte(c.label)}, {Topic: "l", Key: []byte("b"), Value: []byte(c.other)}}
			r.recs[0].Key = []byte("a")
			r.both = slices.Concat(r.recs, r.labels)
		}, `{"x":[1,2]}`)
		text := ""
		for _, f := range list {
			text += fmt.Sprintf("%s %s: %s %s\n", f.severity, f.Subject, f.Text, f.Remedy)
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%v: %s", c, text)
		}
	}
}

// TestRowsThatChange: doctor proposes --join where labels come in later records with the same id, but
// not where that is the id of many records.
func TestRowsThatChange(t *testing.T) {
	for rows, want := range map[int]bool{200: true, 20: false} {
		list := reportedWith(func(r *recordReport) {
			r.Format.Labels, r.Format.Events, r.Format.Label = codec.Auto, codec.Auto, "churned"
			r.recs = nil
			for i := range 400 {
				label := "null"
				if i >= 200 {
					label = fmt.Sprint(i%2 == 0)
				}
				r.recs = append(r.recs, stream.Record{Topic: "t", Offset: int64(i), Value: fmt.Appendf(nil, `{"id":"r%d","amount":%d,"churned":%s}`, i%rows, i%7, label)})
			}
			r.both = r.recs
		})
		last := list[len(list)-1]
		text := last.Subject + ": " + last.Text + " " + last.Remedy
		if found := strings.Contains(text, "join:key"); found != want || want && !strings.HasPrefix(text, "join: 200 of 200 records with a label") {
			t.Errorf("%d rows: %s", rows, text)
		}
	}
}

// TestJoinReport: doctor says how many labels meet an example, how late they come, and
// which settings that takes.
func TestJoinReport(t *testing.T) {
	// Of 100 examples, one a second, label i comes after 20 seconds, and that of every
	// twentieth example after 60.
	report := func(change func(*recordReport)) string {
		list := reportedWith(func(r *recordReport) {
			r.Labels, r.Format.Labels, r.Format.Events = "l", codec.Auto, codec.Auto
			r.Learner.Join = trainer.Join{Topic: "l", Window: 50, By: "order_id=id"}
			r.recs = nil
			for i := range 100 {
				at, delay := time.Unix(int64(i), 0), 20*time.Second
				if i%20 == 19 {
					delay = time.Minute
				}
				r.recs = append(r.recs, stream.Record{Topic: "t", Time: at, Value: fmt.Appendf(nil, `{"order_id":%d,"amount":%d}`, i, i%7)})
				r.labels = append(r.labels, stream.Record{Topic: "l", Time: at.Add(delay), Value: fmt.Appendf(nil, `{"id":"%d","y":%d}`, i, i%2)})
			}
			r.both = slices.Concat(r.recs, r.labels)
			change(r)
			slices.SortStableFunc(r.both, func(a, b stream.Record) int { return a.Time.Compare(b.Time) })
		})
		last := list[len(list)-1]
		return fmt.Sprintf("%s %s: %s %s", last.severity, last.Subject, last.Text, last.Remedy)
	}
	for want, change := range map[string]func(*recordReport){
		"ok join: 100 of 100 labels meet one of 100 examples; a label comes 20s after its example (99 %: 1m0s), and 20 more examples meanwhile (99 %: 60); --join-window 50 and --merge ordered, the default, are enough: it takes 39": func(*recordReport) {},
		"have their label up to 39 examples later than a younger one, so that --join-window 30 loses labels train with map[join-window:78]":                                                                                            func(r *recordReport) { r.Learner.Join.Window = 30 },
		"FAIL join: 50 of 50 labels meet one of 100 examples; a label comes 20s": func(r *recordReport) {
			r.both = slices.DeleteFunc(r.both, func(rec stream.Record) bool { return bytes.Contains(rec.Value, []byte(`"y":0`)) })
		},
		"those without one are learned from when an example 201 younger has its label (--join-window); 100 is enough train with map[join-window:100]": func(r *recordReport) {
			r.both = slices.DeleteFunc(r.both, func(rec stream.Record) bool { return bytes.Contains(rec.Value, []byte(`"y":0`)) })
			r.Learner.Join.Missing, r.Learner.Join.Window = "0", 201
		},
		"ok join: 50 of 50 labels meet one of 100 examples; a label comes 20s": func(r *recordReport) {
			r.both = slices.DeleteFunc(r.both, func(rec stream.Record) bool { return bytes.Contains(rec.Value, []byte(`"y":0`)) })
			r.Learner.Join.Missing = "0"
		},
		"with --merge arrival, one topic is read ahead":                          func(r *recordReport) { r.Source.Merge = kafkaio.MergeArrival },
		"warn join: 90 of 100 labels meet one of 90 examples; a label comes 20s": func(r *recordReport) { r.both = r.both[10:] },
		"99 of 100 labels meet one of 100 examples":                              func(r *recordReport) { r.both[0].Time = time.Unix(300, 0) },
		"filled one after the other": func(r *recordReport) {
			for i := range r.both {
				if r.both[i].Topic == "l" {
					r.both[i].Time = time.Unix(200+int64(i), 0)
				}
			}
		},
		`FAIL join: 0 of 100 labels meet one of 100 examples: the first example has the key "0", the first label "a0"`: func(r *recordReport) {
			for i := range r.labels {
				r.both[100+i].Value = fmt.Appendf(nil, `{"id":"a%d","y":%d}`, i, i%2)
			}
		},
	} {
		if got := report(change); !strings.Contains(got, want) {
			t.Errorf("doctor says\n%s, want\n%s", got, want)
		}
	}
}

// Settings for schemas are not mixed with those of another codec.
func TestSchematicCodecStays(t *testing.T) {
	list := reportedWith(func(r *recordReport) { r.Codec = "avro" }, `{"x":[1,2],"y":1}`, `{"x":[1,3],"y":-1}`)
	if len(list) != 1 || list[0].severity != failure || strings.Contains(list[0].Remedy, "train with") {
		t.Errorf("JSON with --codec avro: %v", list)
	}
}

// TestSemicolons: doctor finds semicolons beside decimal commas, and keeps --label.
func TestSemicolons(t *testing.T) {
	var rows []string
	for i := range 60 {
		rows = append(rows, fmt.Sprintf("%d,25;%c;%d;%d,50", i*i%50, 'a'+i%3, i%7, i%50))
	}
	for separator, want := range map[byte]string{',': "train with map[csv-separator:;]", ';': "features, labels numbers"} {
		list := reportedWith(func(r *recordReport) {
			r.Codec, r.Learner.Learner, r.Learner.Task = "csv", "online", algos.Regress
			r.Format.Label, r.Format.Labels, r.Format.Events, r.Format.CSV.Comma = "4", codec.Auto, codec.Auto, separator
		}, rows...)
		if last := list[len(list)-1]; !strings.Contains(last.Text+last.Remedy, want) {
			t.Errorf("with %q doctor says %v, want %s", separator, last, want)
		}
	}
}
