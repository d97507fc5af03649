package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// queries returns the strings under the given key anywhere in a document.
func queries(key string, node any) []string {
	var found []string
	switch n := node.(type) {
	case map[string]any:
		for k, v := range n {
			if s, ok := v.(string); ok && k == key {
				found = append(found, s)
			}
			found = append(found, queries(key, v)...)
		}
	case []any:
		for _, v := range n {
			found = append(found, queries(key, v)...)
		}
	}
	return found
}

// TestDeployedQueries: what the dashboard shows and the alerts watch are
// metrics that exist, by names.golden, with labels that they have.
func TestDeployedQueries(t *testing.T) {
	golden, err := os.ReadFile("names.golden")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // name → labels
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		labels := "instance job"
		if len(f) == 3 {
			labels += " " + strings.ReplaceAll(f[2], ",", " ")
		}
		known[f[0]] = labels
		if f[1] == "histogram" {
			known[f[0]+"_bucket"], known[f[0]+"_sum"], known[f[0]+"_count"] = labels+" le", labels, labels
		}
	}
	metric := regexp.MustCompile(`(streamsvm_[a-z0-9_]+)(\{[^}]*\})?`)
	label := regexp.MustCompile(`([a-z_]+)\s*=~?"`)
	used := map[string]bool{}
	for file, key := range map[string]string{
		"grafana/dashboards/streamsvm.json": "expr",
		"prometheus/alerts.yml":             "expr",
	} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if strings.HasSuffix(file, ".json") {
			err = json.Unmarshal(data, &doc)
		} else {
			err = yaml.Unmarshal(data, &doc)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		qs := queries(key, doc)
		if len(qs) < 6 {
			t.Fatalf("%s holds %d queries", file, len(qs))
		}
		for _, q := range qs {
			for _, m := range metric.FindAllStringSubmatch(q, -1) {
				labels, ok := known[m[1]]
				if !ok {
					t.Errorf("%s: %s does not exist, in %s", file, m[1], q)
				}
				used[m[1]] = true
				for _, l := range label.FindAllStringSubmatch(m[2], -1) {
					if !strings.Contains(" "+labels+" ", " "+l[1]+" ") {
						t.Errorf("%s: %s has no label %s, in %s", file, m[1], l[1], q)
					}
				}
			}
		}
	}
	if len(used) < 20 {
		t.Errorf("only %d metrics are looked at", len(used))
	}
}
