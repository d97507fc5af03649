package fileio_test

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// near reports whether a is b to six digits, as many as the README has.
func near(a, b float32) bool { return math.Abs(float64(a-b)) <= 5e-6*math.Abs(float64(b)) }

// TestDataSets parses whole public data sets and compares what its README says
// about them: rows, dimension, share of positive labels, density and range.
func TestDataSets(t *testing.T) {
	tests := []struct {
		name        string
		rows, dim   int
		positive    float64 // percent
		density     float64 // percent of rows times the largest index
		least, most float32
	}{
		{name: "ijcnn1.train.libsvm.gz", rows: 49990, dim: 22, positive: 9.71, density: 59.091, least: -0.930435, most: 1},
		{name: "ijcnn1.test.libsvm.gz", rows: 91701, dim: 22, positive: 9.50, density: 59.090, least: -1.32154, most: 1.31208},
		{name: "a9a.train.libsvm.gz", rows: 32561, dim: 123, positive: 24.08, density: 11.276, least: 0, most: 1},
		{name: "a9a.test.libsvm.gz", rows: 16281, dim: 123, positive: 23.62, density: 11.364, least: 0, most: 1},
		{name: "covtype15k.libsvm.gz", rows: 15000, dim: 54, positive: 48.61, density: 22.002, least: -152, most: 7078},
		{name: "reuters_moneyfx.test.libsvm.gz", rows: 3299, dim: 8315, positive: 5.43, density: 0.499, least: 0, most: 0.936835},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src, err := fileio.Open([]string{dataset.Path(t, tt.name)}, fileio.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			dec, err := codec.New("libsvm", codec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var (
				rows, dim, positive, values int
				least, most                 float32
				recs                        []stream.Record
			)
			for {
				recs, err = src.Fetch(t.Context(), recs[:0])
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for k := range recs {
					rec := &recs[k]
					if rec.Topic != tt.name || rec.Partition != 0 || rec.Offset != int64(rows) {
						t.Fatalf("record %d is %s/%d offset %d", rows, rec.Topic, rec.Partition, rec.Offset)
					}
					var ex stream.Example
					if err := dec.Decode(rec.Value, &ex); err != nil {
						t.Fatal(stream.At(rec, err))
					}
					rows++
					dim = max(dim, ex.X.Dim())
					values += len(ex.X.Val)
					if ex.Y == 1 {
						positive++
					}
					for _, v := range ex.X.Val {
						least, most = min(least, v), max(most, v)
					}
				}
			}
			if rows != tt.rows || dim > tt.dim {
				t.Errorf("%d rows of %d features, want %d of %d", rows, dim, tt.rows, tt.dim)
			}
			if p := 100 * float64(positive) / float64(rows); math.Abs(p-tt.positive) > 0.0051 {
				t.Errorf("%.3f %% of the labels are positive, want %.2f", p, tt.positive)
			}
			if d := 100 * float64(values) / float64(rows*dim); math.Abs(d-tt.density) > 0.00051 {
				t.Errorf("density %.4f %%, want %.3f", d, tt.density)
			}
			if !near(least, tt.least) || !near(most, tt.most) {
				t.Errorf("values lie in %v to %v, want %v to %v", least, most, tt.least, tt.most)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name  string
		paths []string
		o     fileio.Options
	}{
		{"no files", nil, fileio.Options{}},
		{"unknown suffix", []string{"a.dat"}, fileio.Options{}},
		{"unknown codec", []string{"a.dat"}, fileio.Options{Codec: "xml"}},
		{"standard input without codec", []string{"-"}, fileio.Options{}},
		{"standard input twice", []string{"-"}, fileio.Options{Codec: "json", Passes: 2}},
		{"same topic", []string{"a/x.json", "b/x.json"}, fileio.Options{}},
		{"negative passes", []string{"x.json"}, fileio.Options{Passes: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := fileio.Open(tt.paths, tt.o); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	src, err := fileio.Open([]string{filepath.Join(t.TempDir(), "x.json")}, fileio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := src.Fetch(t.Context(), nil); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("Fetch of a missing file: %v", err)
		}
	}
}
