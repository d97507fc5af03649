package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
)

// answered is a line of predict's output.
type answered struct {
	Decision *float64
	Label, Y any
	Error    string
}

// answers runs predict and returns what it says.
func answers(t *testing.T, args ...string) (code int, list []answered, errText string) {
	t.Helper()
	code, out, errText := streamsvm(t.Context(), append([]string{"predict"}, args...)...)
	for line := range strings.Lines(out) {
		list = append(list, decode[answered](t, line))
	}
	return code, list, errText
}

func save(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, text)
	return path
}

// table makes n lines of a file with the columns given, of which "class" holds
// the label, "id" something else, and the others features: b counts against
// all others.
func table(n int, columns []string, header bool, labels [2]string) string {
	r := rand.New(rand.NewPCG(2, 3))
	var b strings.Builder
	if header {
		b.WriteString(strings.Join(columns, ",") + "\n")
	}
	for i := range n {
		cell := map[string]string{"id": fmt.Sprintf("n%d", i)}
		f := 0.0
		for _, name := range []string{"a", "b", "c"} {
			v := r.NormFloat64()
			cell[name] = fmt.Sprintf("%.4f", v)
			if name == "b" {
				v *= -2
			}
			f += v
		}
		cell["class"] = labels[0]
		if f > 0 {
			cell["class"] = labels[1]
		}
		for k, name := range columns {
			if k > 0 {
				b.WriteByte(',')
			}
			b.WriteString(cell[name])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var zeroOne = [2]string{"0", "1"}

// trainedOn returns the file of a model of a table.
func trainedOn(t *testing.T, labels string, names [2]string) string {
	t.Helper()
	model := filepath.Join(t.TempDir(), "m.ssm")
	train := save(t, "train.csv", table(1000, []string{"id", "a", "b", "c", "class"}, true, names))
	must(t, append([]string{"replay", train, "--csv-header", "--label-column", "class", "--drop-columns", "id", "--labels", labels, "--model", model}, learn...)...)
	return model
}

// TestPredictInTheWordsOfTheData: what a model answers, and takes, are the
// labels that it was trained with, without a flag.
func TestPredictInTheWordsOfTheData(t *testing.T) {
	for _, c := range []struct {
		flag  string
		names [2]string
		json  [2]any
	}{
		{"01", zeroOne, [2]any{0., 1.}},
		{"pm1", [2]string{"-1", "1"}, [2]any{-1., 1.}},
		{"2,7", [2]string{"2", "7"}, [2]any{2., 7.}},
		{"false,true", [2]string{"false", "true"}, [2]any{false, true}},
		{"ham,spam", [2]string{"ham", "spam"}, [2]any{"ham", "spam"}},
	} {
		model := trainedOn(t, c.flag, c.names)
		test := save(t, "test.csv", table(200, []string{"id", "a", "b", "c", "class"}, true, c.names))
		code, list, errText := answers(t, "--model", model, test)
		if code != 0 || len(list) != 200 || !strings.Contains(errText, "accuracy") {
			t.Fatalf("%s: exit code %d, %d answers, %s", c.flag, code, len(list), errText)
		}
		right := 0
		for _, a := range list {
			if a.Label != c.json[0] && a.Label != c.json[1] || (a.Label == c.json[1]) != (*a.Decision >= 0) || a.Y != c.json[0] && a.Y != c.json[1] {
				t.Fatalf("%s: %+v", c.flag, a)
			}
			if a.Label == a.Y {
				right++
			}
		}
		if right < 180 {
			t.Errorf("%s: %d of 200 are right", c.flag, right)
		}
		out := must(t, "predict", "--model", model, "--output", "label", "-q", test)
		if first, _, _ := strings.Cut(out, "\n"); !slices.Contains(c.names[:], first) {
			t.Errorf("%s: --output label prints %q", c.flag, first)
		}
		// The same in JSON, as on a topic.
		y, _ := json.Marshal(c.json[0])
		in := save(t, "in.json", fmt.Sprintf(`{"x":[1,2,3],"y":%s}`+"\n", y))
		if code, list, errText = answers(t, "--model", model, in); code != 0 || list[0].Y != c.json[0] {
			t.Errorf("%s: exit code %d, %+v, %s", c.flag, code, list, errText)
		}
		if code, _, errText = answers(t, "--model", model, "--labels", "vrai,faux", in); code != int(cli.Usage) || !strings.Contains(errText, "--labels") {
			t.Errorf("%s: other labels are taken: exit code %d, %s", c.flag, code, errText)
		}
		if text := must(t, "model", "inspect", model); !strings.Contains(text, fmt.Sprintf("%v, %v", c.json[0], c.json[1])) || !strings.Contains(text, "features: [a, b, c]") {
			t.Errorf("%s: inspect says\n%s", c.flag, text)
		}
	}
}

// TestPredictRefusesOtherDimensions: a vector of another length is an error of
// its record.
func TestPredictRefusesOtherDimensions(t *testing.T) {
	model := trainedOn(t, "01", zeroOne)
	in := save(t, "in.json", `{"x":[1,2,3]}`+"\n"+`{"x":[1,2]}`+"\n"+`{"x":[1,2,3,4],"id":"a"}`+"\n"+`{"x":{"2":1,"9":1}}`+"\n")
	code, list, errText := answers(t, "--model", model, in)
	if code != int(cli.Data) || len(list) != 4 || list[0].Error != "" || list[3].Error != "" || !strings.Contains(errText, "2 records could not be scored") ||
		!strings.Contains(list[1].Error, "2 features where the model has 3") || !strings.Contains(list[2].Error, "4 features where the model has 3") {
		t.Errorf("exit code %d, %+v, %s", code, list, errText)
	}
	plain := save(t, "in.csv", "1,2,3\nn1,1,2,3,1\n1,2\n1,2,3,1\n")
	if code, list, errText = answers(t, "--model", model, "--csv-header=false", plain); code != int(cli.Data) || len(list) != 4 ||
		list[0].Error != "" || list[1].Y != 1. || *list[0].Decision != *list[1].Decision ||
		!strings.Contains(list[2].Error, "2 fields, want 5, or the 3 features alone") || list[3].Error == "" {
		t.Errorf("exit code %d, %+v, %s", code, list, errText)
	}
}

// TestPredictMapsColumns: columns count by their names, in files of predict and
// of replay --test, whatever their order.
func TestPredictMapsColumns(t *testing.T) {
	model := trainedOn(t, "01", zeroOne)
	first := save(t, "first.csv", table(300, []string{"id", "a", "b", "c", "class"}, true, zeroOne))
	want := must(t, "predict", "--model", model, "-q", first)
	for _, columns := range [][]string{{"class", "c", "a", "b", "id"}, {"b", "a", "class", "c"}} {
		other := save(t, strings.Join(columns, "")+".csv", table(300, columns, true, zeroOne))
		if got := must(t, "predict", "--model", model, "-q", other); got != want {
			t.Errorf("columns %v make a difference", columns)
		}
		// Several files, each with a header of its own.
		if got := must(t, "predict", "--model", model, "-q", first, other); got != want+want {
			t.Errorf("columns %v make a difference in a second file", columns)
		}
		train := save(t, "train.csv", table(1000, []string{"id", "a", "b", "c", "class"}, true, zeroOne))
		args := append([]string{"replay", train, "--csv-header", "--label-column", "5", "--drop-columns", "1", "--labels", "01", "--json", "-"}, learn...)
		if len(columns) == 5 {
			a := decode[result](t, must(t, append(args, "--test", first)...))
			if b := decode[result](t, must(t, append(args, "--test", other)...)); !reflect.DeepEqual(a.Test, b.Test) || float64(a.Test.Accuracy) < .9 {
				t.Errorf("columns %v: test %+v, want %+v", columns, b.Test, a.Test)
			}
			if code, _, errText := streamsvm(t.Context(), append(args, other)...); code != int(cli.Data) || !strings.Contains(errText, "columns are class, c, a") {
				t.Errorf("learning from files of different columns: exit code %d, %s", code, errText)
			}
		}
	}
	missing := save(t, "missing.csv", table(3, []string{"c", "a", "class"}, true, zeroOne))
	if code, _, errText := answers(t, "--model", model, missing); code != int(cli.Data) || !strings.Contains(errText, `no column "b"`) {
		t.Errorf("a column is missing: exit code %d, %s", code, errText)
	}
	bare := save(t, "bare.csv", table(3, []string{"a", "b", "c"}, false, zeroOne))
	if code, _, errText := answers(t, "--model", model, bare); code != int(cli.Data) || !strings.Contains(errText, "--csv-header=false") {
		t.Errorf("there is no header: exit code %d, %s", code, errText)
	}
}

// TestPredictBatch: one bad example of a request is an error of its own.
func TestPredictBatch(t *testing.T) {
	m, err := describe.ReadModel(trainedOn(t, "01", zeroOne))
	if err != nil {
		t.Fatal(err)
	}
	v := &predictor.Version{Predictor: m}
	reg := metrics.NewRegistry(version.String)
	p := &predict{
		c: &cli.Call{}, codecFlags: codecFlags{labels: "pm1", comma: ",", maxFeatures: 100}, maxBody: 1 << 20,
		m: metrics.NewPredictor(reg), quality: eval.New(false, 10), current: func() *predictor.Version { return v },
	}
	s := newServer(reg)
	p.ready, p.limits = &s.ready, s.limits
	p.ready.Store(true)
	srv := httptest.NewServer(p.routes()["POST /predict"])
	defer srv.Close()
	post := func(body string) (code int, got struct {
		Predictions []struct {
			ID       string
			Index    *int
			Decision *float64
			Label    any
			Error    string
		}
		Error string
	}) {
		t.Helper()
		resp, err := http.Post(srv.URL, "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil {
			err = json.NewDecoder(bytes.NewReader(b)).Decode(&got)
		}
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		return resp.StatusCode, got
	}

	hundred := slices.Repeat([]string{`{"x":[1,2,3],"y":0}`}, 100)
	hundred[41] = `{"x":[1,2],"id":"bad"}`
	hundred[77] = `{"x":"no"}`
	code, got := post("[" + strings.Join(hundred, ",") + "]")
	if code != 200 || len(got.Predictions) != 100 || got.Error != "" {
		t.Fatalf("a batch with two bad ones: status %d, %+v", code, got)
	}
	for i, a := range got.Predictions {
		bad := i == 41 || i == 77
		if (a.Error != "") != bad || (a.Decision == nil) != bad || bad && *a.Index != i || !bad && a.Label != 0. && a.Label != 1. {
			t.Errorf("example %d: %+v", i, a)
		}
	}
	if a := got.Predictions[41]; a.ID != "bad" || !strings.Contains(a.Error, "2 features where the model has 3") {
		t.Errorf("%+v", a)
	}
	for body, want := range map[string]string{
		`{"x":[1,2]}`:               "example 1: feature, x: 2 features where the model has 3",
		`[{"x":[1,2]},{"x":[1]}]`:   "none of 2 examples can be scored; example 1: ",
		"1,2":                       "2 fields",
		"c,a,class\n1,2,0\n3,1,0\n": `no column "b"`,
		`[{"x":[1,2,3]}`:            "unexpected end",
	} {
		if code, got := post(body); code != 400 || !strings.Contains(got.Error, want) {
			t.Errorf("%s: status %d, %+v, want %q", body, code, got, want)
		}
	}
	// Lines of csv, with and without a header.
	_, plain := post("1,2,3\n4,5,6")
	_, named := post("c,class,a,b\n3,1,1,2\n6,0,4,5\n")
	if len(plain.Predictions) != 2 || len(named.Predictions) != 2 || *plain.Predictions[0].Decision != *named.Predictions[0].Decision || *plain.Predictions[1].Decision != *named.Predictions[1].Decision {
		t.Errorf("%+v, with a header %+v", plain, named)
	}
}

// TestModelWithoutSignature: a model of before there were signatures is read as
// the flags say.
func TestModelWithoutSignature(t *testing.T) {
	model := filepath.Join("..", "..", "trainer", "testdata", "before", "online.ssm")
	in := save(t, "in.json", `{"x":[1],"y":0}`+"\n")
	named := save(t, "in.csv", "a,class\n1,0\n2,1\n")
	if code, list, errText := answers(t, "--model", model, "--labels", "01", "--csv-header", "--label-column", "class", named); code != 0 || len(list) != 2 || list[1].Y != 1. {
		t.Errorf("csv: exit code %d, %+v, %s", code, list, errText)
	}
	code, list, errText := answers(t, "--model", model, "--labels", "01", in)
	if code != 0 || len(list) != 1 || list[0].Y != 0. || list[0].Label != 0. && list[0].Label != 1. {
		t.Errorf("exit code %d, %+v, %s", code, list, errText)
	}
}

// TestPredictFromStandardInput: columns count by their names there too.
func TestPredictFromStandardInput(t *testing.T) {
	model := trainedOn(t, "01", zeroOne)
	columns := []string{"c", "class", "b", "a"}
	path := save(t, "x.csv", table(50, columns, true, zeroOne))
	want := must(t, "predict", "--model", model, "-q", path)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "predict", "--model", model, "-q")
	cmd.Env, cmd.Stdin = append(os.Environ(), "STREAMSVM_TEST_MAIN=1"), f
	got, err := cmd.Output()
	if err != nil || string(got) != want {
		t.Errorf("standard input is scored otherwise than a file: %v", err)
	}
}

// TestReplayOfStandardInput: replay looks at the first records before it learns from
// them, which standard input gives only once.
func TestReplayOfStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdin") // the name is part of the state
	must(t, "generate", "moons", "--count", "300", "--codec", "json", "--out", path, "-q")
	args := []string{"--codec", "json", "--learner", "online", "--json", "-", "-q"}
	want := decode[result](t, must(t, append([]string{"replay", path}, args...)...))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"replay", "-"}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), "STREAMSVM_TEST_MAIN=1"), f
	got, err := cmd.Output()
	if err != nil || want.StateHash == "" || decode[result](t, string(got)).StateHash != want.StateHash {
		t.Errorf("standard input gives another state than a file: %v", err)
	}
}
