package prep

import (
	"bufio"
	"compress/gzip"
	"os"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// head returns the first n examples of a data set.
func head(t *testing.T, name string, n int) []*stream.Example {
	t.Helper()
	f, err := os.Open(dataset.Path(t, name+".libsvm.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []*stream.Example
	for lines := bufio.NewScanner(z); len(out) < n && lines.Scan(); {
		e := &stream.Example{Seq: uint64(len(out) + 1)}
		if err := c.Decode(append([]byte(nil), lines.Bytes()...), e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// TestAutoOnDataSets shows what Auto makes of well-known data: whoever changes
// the rule sees here what it changes.
func TestAutoOnDataSets(t *testing.T) {
	for name, want := range map[string]string{
		"a9a.train":             "none (auto)",
		"w8a.train":             "none (auto)",
		"census_nominal.train":  "none (auto)",
		"usenet1":               "none (auto)",
		"ijcnn1.train":          "none (auto)",
		"reuters_moneyfx.train": "none (auto)",
		"mnist8.train":          "common 0.003922 (auto)",
		"covtype15k":            "standard over 54 features, 1 by asinh (auto)",
		"elec2":                 "standard over 8 features (auto)",
		"heart_failure":         "standard over 12 features, 3 by asinh (auto)",
		"magic04":               "standard over 10 features, 1 by asinh (auto)",
		"skin_nonskin":          "common 0.003922 (auto)",
		"winequality":           "standard over 11 features, 3 by asinh (auto)", // the 12th, red or white, is 0 at first
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := Fit(head(t, name, 1000), Options{})
			if err != nil || tr.String() != want {
				t.Errorf("%v, want %s, %v", tr, want, err)
			}
		})
	}
}
