package codec

import (
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestGuessSeparator(t *testing.T) {
	for rows, want := range map[string]byte{
		"0,25;a;1,50\n1,00;b;4,00":                          ';', // decimal commas, as many as semicolons
		"24.09.2026;5,3;x;14,2 €\n1.1.2026;1.234,5;y;1,0 €": ';',
		"1,0.1;0.2;0.3\n0,0.4;0.5;0.6":                      ',', // a list in the second column
		"a;b,1\nc;d,2":                                      ',',
		"a;b;1\nc;d;2":                                      ';',
		"a\t1,5\nb\t2,5":                                    '\t',
	} {
		if got := GuessSeparator(strings.Split(rows, "\n"), ','); got != want {
			t.Errorf("%q is separated by %q, want %q", rows, got, want)
		}
	}
}

// Commas in labels of a regression are decimal commas beside semicolons, and thousands or mistakes
// beside tabs.
func TestDecimalCommaLabels(t *testing.T) {
	for _, tt := range []struct {
		comma byte
		row   string
		want  float64
	}{{';', "1;-6,25", -6.25}, {';', "1;7", 7}, {';', "1;1,234,5", 0}, {'\t', "1\t1,234", 0}} {
		c, err := New("csv", Options{Task: "regress", CSV: CSVOptions{Comma: tt.comma, LabelColumn: "last"}})
		if err != nil {
			t.Fatal(err)
		}
		var x stream.Example
		if err := c.Decode([]byte(tt.row), &x); (err == nil) != (tt.want != 0) || x.Y != tt.want {
			t.Errorf("%q: label %v, error %v", tt.row, x.Y, err)
		}
	}
	d, err := NewDiscovery("csv", Options{Task: "regress", Label: "6", Labels: Auto, Events: Auto})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		d.Look([]byte("a,1,2"))
	}
	if _, err := d.Decide(); err == nil || !strings.Contains(err.Error(), "there is no column 6 to predict, rows have 3") {
		t.Errorf("a label in column 6 of 3: %v", err)
	}
}
