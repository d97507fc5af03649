package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSeparators: a file that separates columns by semicolons or tabs, with the numbers and dates
// that go with it, and one of JSON in texts, give what the same values with commas give.
func TestSeparators(t *testing.T) {
	dir := t.TempDir()
	write := func(name, head, row string, of func(v float64) string) string {
		text := head
		for i := range 400 {
			v := float64(i*i%1999) / 4
			text += fmt.Sprintf(row, of(v), "abc"[i%3:i%3+1], 1+i%28, v > 200 || i%11 == 0)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := func(v float64) string { return fmt.Sprint(v) }
	german := func(v float64) string { return strings.Replace(fmt.Sprint(v), ".", ",", 1) + " €" }
	scores := func(file string) string {
		model := file + ".ssm"
		out := must(t, "replay", "--label", "late", "--learner", "sbp", "--model", model, file)
		i := strings.Index(out, "prequential")
		must(t, "predict", "--model", model, file)
		return strings.SplitN(out[i:], "\n", 2)[0]
	}
	want := scores(write("a.csv", "amount,kind,day,late\n", "%s,%s,2026-03-%02d,%v\n", plain))
	for _, file := range []string{
		write("b.csv", "amount;kind;day;late\n", "%s;%s;%02d.03.2026;%v\n", german),
		write("c.tsv", "amount\tkind\tday\tlate\n", "%s\t%s\t03/%02d/2026\t%v\n", plain),
		write("d.csv", "amount|kind|day|late\n", "%s|%s|2026-03-%02d|%v\n", plain),
		write("e.jsonl", "", `"{\"amount\":%s,\"kind\":\"%s\",\"day\":\"2026-03-%02d\",\"late\":%v}"`+"\n", plain),
		write("f.jsonl", "", `{"amount":"$%s","kind":"%s","day":"Mar %d, 2026","late":%v}`+"\n", plain),
	} {
		if got := scores(file); got != want {
			t.Errorf("%s: %s, want %s", filepath.Base(file), got, want)
		}
	}
}

// TestDecimalCommas: semicolons separate fields with decimal commas, of which a row has as many, and
// labels have them too.
func TestDecimalCommas(t *testing.T) {
	file := func(name, sep, point string) string {
		text := ""
		for i := range 400 {
			row := fmt.Sprintf("%.2f,%s,%.2f\n", float64(i*i%1999)/4, "abc"[i%3:i%3+1], float64(i*i%1999)/2+float64(i%3))
			text += strings.NewReplacer(",", sep, ".", point).Replace(row)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := must(t, "replay", path, "--task", "regress", "--label-column", "3", "--learner", "online", "--tune=off")
		_, out, _ = strings.Cut(out, "prequential")
		return strings.SplitN(out, "\n", 2)[0]
	}
	if want, got := file("a.csv", ",", "."), file("b.csv", ";", ","); got != want || want == "" {
		t.Errorf("with decimal commas %q, want %q", got, want)
	}
}
