package streamsvm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write README.md")

// line is one value of the chart.
type line struct{ key, value, text string }

// values lists what values.yaml sets, with its comments, depth first. What is
// below a key named config, or is empty, is one value.
func values(t *testing.T) (list []line) {
	t.Helper()
	data, err := os.ReadFile("values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		for i := 0; i < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			text := strings.ReplaceAll(strings.ReplaceAll(k.HeadComment, "# ", ""), "\n", " ")
			key := prefix + k.Value
			whole := v.Kind != yaml.MappingNode || len(v.Content) == 0 || k.Value == "resources" || k.Value == "config"
			if whole {
				var out any
				if err := v.Decode(&out); err != nil {
					t.Fatal(err)
				}
				value, _ := json.Marshal(out)
				list = append(list, line{key, string(value), text})
				continue
			}
			if text != "" {
				list = append(list, line{key, "", text})
			}
			walk(key+".", v)
		}
	}
	walk("", doc.Content[0])
	return list
}

// TestValues: README.md says what values.yaml says, and the schema knows every
// value. With -update it is written.
func TestValues(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Values of the chart\n\nWritten by `go test ./deploy/helm/streamsvm -update` from [values.yaml](values.yaml). How to use them: [kubernetes.md](../../../docs/kubernetes.md).\n\n| value | default | |\n| --- | --- | --- |\n")
	data, err := os.ReadFile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	list := values(t)
	if len(list) < 40 {
		t.Fatalf("%d values found", len(list))
	}
	for _, l := range list {
		value := l.value
		if value != "" {
			value = "`" + value + "`"
			if l.text == "" {
				t.Errorf("%s has no comment", l.key)
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.key, value, l.text)
		at := schema
		for k := range strings.SplitSeq(l.key, ".") {
			props, _ := at["properties"].(map[string]any)
			if at, _ = props[k].(map[string]any); at == nil {
				t.Errorf("values.schema.json does not know %s", l.key)
				break
			}
		}
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("README.md")
	if err != nil || string(have) != b.String() {
		t.Errorf("README.md is not up to date: go test ./deploy/helm/streamsvm -update (%v)", err)
	}
}

// render returns the manifests that Helm makes of the chart.
func render(t *testing.T, set ...string) ([]map[string]any, error) {
	t.Helper()
	helm := os.Getenv("STREAMSVM_TEST_HELM")
	if helm == "" {
		t.Skip("needs Helm: scripts/chart.sh")
	}
	args := []string{"template", "demo", ".", "--kube-version", "1.37.0"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(helm, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var list []map[string]any
	for d := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var one map[string]any
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			t.Fatal(err)
		}
		if one != nil {
			list = append(list, one)
		}
	}
}

// at returns what is at a path of keys and indices, nil if nothing is.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

const everything = "sift.enabled=true,sift.autoscaling.enabled=true,predict.autoscaling.enabled=true,predict.autoscaling.max=4,keda.authentication=login,metrics.serviceMonitor=true," +
	"config.sasl-mechanism=scram-sha-512,config.sasl-username=me,secretFiles[0].setting=sasl-password-file,secretFiles[0].secret=kafka,secretFiles[0].key=password," +
	"secretFiles[1].setting=tls-ca,secretFiles[1].secret=ca,secretFiles[1].key=ca.crt,config.tls=true"

// TestManifests: what must hold of the manifests, whatever the values.
func TestManifests(t *testing.T) {
	program := filepath.Join(t.TempDir(), "streamsvm")
	if os.Getenv("STREAMSVM_TEST_HELM") != "" {
		if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/streamsvm").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for name, c := range map[string]struct {
		set   string
		kinds string
	}{
		"as it comes":  {"train.enabled=true", "ServiceAccount NetworkPolicy ConfigMap Service StatefulSet ConfigMap Service Deployment PodDisruptionBudget"},
		"everything":   {everything, "ServiceAccount NetworkPolicy ServiceMonitor ConfigMap Service StatefulSet ConfigMap Service Deployment PodDisruptionBudget ScaledObject ConfigMap Service Deployment PodDisruptionBudget ScaledObject"},
		"no volume":    {"train.storage.topic=state", "ServiceAccount NetworkPolicy ConfigMap Service StatefulSet ConfigMap Service Deployment PodDisruptionBudget"},
		"only a model": {"train.enabled=false,networkPolicy.enabled=false,serviceAccount.create=false,predict.config.topics=null,predict.config.group=null,predict.config.predictions-topic=null", "ConfigMap Service Deployment PodDisruptionBudget"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := render(t, c.set)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]int{}
			for k := range strings.FieldsSeq(c.kinds) {
				kinds[k]++
			}
			for _, m := range list {
				kind, name := m["kind"].(string), at(m, "metadata", "name").(string)
				kinds[kind]--
				role := name[strings.LastIndex(name, "-")+1:]
				spec := at(m, "spec", "template", "spec")
				switch kind {
				case "ConfigMap":
					path := filepath.Join(t.TempDir(), "streamsvm.yaml")
					text := at(m, "data", "streamsvm.yaml").(string)
					for _, file := range []string{"sasl-password-file", "tls-ca"} {
						own := filepath.Join(filepath.Dir(path), file)
						if err := os.WriteFile(own, []byte("x"), 0o600); err != nil {
							t.Fatal(err)
						}
						text = strings.ReplaceAll(text, "/secrets/"+file, own)
					}
					text = strings.Replace(text, "tls-ca: ", "# tls-ca: ", 1) // it would have to be one
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					if out, err := exec.Command(program, "config", "lint", path, role).CombinedOutput(); err != nil {
						t.Errorf("%s: %s\n%s", name, out, text)
					}
				case "StatefulSet", "Deployment":
					box := at(spec, "containers", 0)
					if at(box, "securityContext", "readOnlyRootFilesystem") != true || at(spec, "securityContext", "runAsNonRoot") != true || at(spec, "automountServiceAccountToken") != false || at(box, "securityContext", "allowPrivilegeEscalation") != false {
						t.Errorf("%s may do more than it needs", name)
					}
					if at(box, "livenessProbe", "httpGet", "path") != "/healthz" || at(box, "readinessProbe", "httpGet", "path") != "/readyz" {
						t.Errorf("%s is not probed", name)
					}
					replicas, claims := at(m, "spec", "replicas"), at(m, "spec", "volumeClaimTemplates", 0, "spec", "accessModes", 0)
					volume := any("ReadWriteOncePod")
					if strings.Contains(c.set, "storage.topic") {
						volume = nil
					}
					mounts, _ := at(box, "volumeMounts").([]any)
					mounted := slices.ContainsFunc(mounts, func(m any) bool { return at(m, "mountPath") == "/state" })
					if mounted != (role == "train" && volume != nil) {
						t.Errorf("%s mounts %v", name, mounts)
					}
					if role == "train" && (replicas != 1 || claims != volume) || role != "train" && claims != nil || (role == "train") != (kind == "StatefulSet") {
						t.Errorf("%s: %s, replicas %v, claims %v", name, kind, replicas, claims)
					}
					if _, fixed := replicas.(int); fixed == strings.Contains(c.set, role+".autoscaling.enabled=true") {
						t.Errorf("%s: replicas %v, with %s", name, replicas, c.set)
					}
				case "ScaledObject":
					if at(m, "spec", "triggers", 0, "metadata", "consumerGroup") != "streamsvm-"+role || at(m, "spec", "scaleTargetRef", "name") != name || at(m, "spec", "scaleTargetRef", "kind") != "Deployment" || at(m, "spec", "triggers", 0, "authenticationRef", "name") != "login" {
						t.Errorf("%v", m)
					}
				}
			}
			for k, n := range kinds {
				if n != 0 {
					t.Errorf("%d more or fewer of %s than expected", n, k)
				}
			}
		})
	}
}

// TestRefused: values that would do harm.
func TestRefused(t *testing.T) {
	for set, want := range map[string]string{
		"train.replicas=2":                                           "replicas",
		"config.sasl-password=hunter2":                               "config",
		"train.storage.accessMode=ReadWriteMany":                     "accessMode",
		"predict.autoscaling.enabled=true,predict.config.group=null": "needs predict.config.group",
	} {
		if _, err := render(t, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
}
