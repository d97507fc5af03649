package fileio

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestCreate writes examples in all forms and compressions and reads them
// back.
func TestCreate(t *testing.T) {
	examples := []stream.Example{
		{X: stream.Vec{Val: []float32{0.5, 1.5}}, Y: 1, Labelled: true},
		{X: stream.Vec{Val: []float32{-2, 1e-7}}},
		{X: stream.Vec{Val: []float32{3, 4}}, Y: -1, Labelled: true},
	}
	for _, name := range codec.Names() {
		for _, suffix := range []string{"", ".gz", ".zst"} {
			t.Run(name+suffix, func(t *testing.T) {
				c, err := codec.New(name, codec.Options{CSV: codec.CSVOptions{
					Header: true, Columns: []string{"y", "a", "b"}, LabelColumn: "y"}})
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "x."+name+suffix)
				w, err := Create(path, c)
				if err != nil {
					t.Fatal(err)
				}
				for k := range examples {
					if err := w.Write(&examples[k]); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				if w.Write(&examples[0]) == nil {
					t.Error("a closed writer takes an example")
				}
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				magic := map[string]string{"": "", ".gz": "\x1f\x8b", ".zst": "\x28\xb5\x2f\xfd"}[suffix]
				if !bytes.HasPrefix(raw, []byte(magic)) {
					t.Errorf("the file starts with %q", raw[:4])
				}
				recs := drain(t, open(t, Options{Header: true}, path))
				if len(recs) != len(examples) {
					t.Fatalf("%d records", len(recs))
				}
				for k := range recs {
					var ex stream.Example
					if err := c.Decode(recs[k].Value, &ex); err != nil {
						t.Fatal(err)
					}
					x := make([]float32, 2)
					ex.X.Dense(x)
					if !slices.Equal(x, examples[k].X.Val) || ex.Y != examples[k].Y || ex.Labelled != examples[k].Labelled {
						t.Errorf("%d: %+v", k, ex)
					}
				}
			})
		}
	}
	c, err := codec.New("json", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "x.json"), c); err == nil {
		t.Error("no error where the directory is missing")
	}
	w, err := Create(filepath.Join(t.TempDir(), "x.json"), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", " \n", "a\nb"} {
		if w.WriteValue([]byte(bad)) == nil {
			t.Errorf("%q was taken for a line", bad)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCreateFull checks that a full disk is reported.
func TestCreateFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	c, err := codec.New("json", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create("/dev/full", c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteValue([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if w.Close() == nil {
		t.Error("no error from a full disk")
	}
}
