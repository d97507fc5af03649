package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/pipe"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// toPipe is a request.
func toPipe(kind byte, payload string) string {
	return string(binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(payload)))) + payload
}

// reply is an answer: the kind, and the payload.
type reply struct {
	kind    byte
	payload string
}

// pipeFrames runs replay --pipe on input, and returns the answers.
func pipeFrames(t *testing.T, input string, args ...string) (answers []reply) {
	t.Helper()
	var out bytes.Buffer
	var errs buffer
	code := program().Main(t.Context(), append([]string{"replay", "--pipe", "-"}, args...),
		cli.Stdio{In: strings.NewReader(input), Out: &out, Err: &errs, Getenv: func(string) (string, bool) { return "", false }})
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for out.Len() > 0 {
		kind, payload, err := pipe.ReadFrame(&out)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, reply{kind, string(payload)})
	}
	return answers
}

// TestPipeIsReplay: what is learned through a pipe is what replay learns from a file, to
// the bit, however the stream is cut into frames, whatever is asked in between, and
// after it has been saved and resumed.
func TestPipeIsReplay(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	for i, p := range purchases(3000) {
		lines = append(lines, fmt.Sprintf(`{"country":%q,"amount":%g,"hour":%d,"n":%d,"fraud":%v}`+"\n", p.country, p.amount, p.hour, i%7, p.zeroOne() == 1))
	}
	var packed []string
	for i, p := range purchases(3000) {
		b := []byte{0x82, 0xa1, 'x', 0xc4, 12}
		for _, v := range []float64{p.amount, float64(p.hour), float64(i % 5)} {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
		b = append(b, 0xa1, 'y', byte(int8(p.sign())))
		packed = append(packed, string(b))
	}
	for _, tt := range []struct {
		name string
		rows []string
		args []string
	}{
		{"events.json", lines, []string{"--codec", "json", "--label", "fraud", "--learner", "online"}},
		{"adaptive.json", lines[:700], []string{"--codec", "json", "--label", "fraud"}},
		{"vectors.msgpack", packed[:900], []string{"--codec", "msgpack"}},
		{"online.msgpack", packed, []string{"--codec", "msgpack", "--learner", "online", "--warmup", "900"}},
	} {
		// The name is part of the state. That of standard input is stdin.
		file, model := filepath.Join(dir, "stdin"), filepath.Join(dir, "m.ssm")
		write(t, file, strings.Join(tt.rows, ""))
		want := decode[result](t, must(t, append([]string{"replay", file, "--model", model, "--json", "-", "-q"}, tt.args...)...))
		wantModel := read(t, model)
		for _, size := range []int{1, len(tt.rows)} {
			rows, saved := tt.rows, ""
			for _, first := range []int{size, 100, len(rows)} {
				first = min(first, len(rows))
				input := toPipe('r', saved)
				for batch := range slices.Chunk(rows[:first], max(size, 400)) {
					input += toPipe('l', strings.Join(batch, "")) + toPipe('p', batch[0]) + toPipe('s', "")
				}
				rows = rows[first:]
				answers := pipeFrames(t, input+toPipe('c', ""), tt.args...)
				saved = answers[len(answers)-1].payload
				for i, a := range answers {
					if a.kind != 'a' && size > 1 { // of the first example there is no model
						t.Errorf("%s in frames of %d: answer %d is %s", tt.name, size, i, a.payload)
					}
				}
			}
			answers := pipeFrames(t, toPipe('r', saved)+toPipe('f', "")+toPipe('s', "")+toPipe('m', ""), tt.args...)
			got := decode[map[string]any](t, answers[2].payload)
			if got["state_hash"] != want.StateHash {
				t.Errorf("%s in frames of %d: state hash %v, replay has %s", tt.name, size, got["state_hash"], want.StateHash)
			}
			if answers[3].payload != string(wantModel) {
				t.Errorf("%s in frames of %d: another model than that of replay", tt.name, size)
			}
		}
	}
}

// TestPipeErrors: what cannot be done is an answer that says which record and field are
// wrong, and the next request is answered as if it had not been asked.
func TestPipeErrors(t *testing.T) {
	args := []string{"--codec", "json", "--label", "y", "--labels", "0,1", "--learner", "online"}
	rows := ""
	for i := range 1200 {
		rows += fmt.Sprintf(`{"a":%d.5,"y":%d}`+"\n", i%10, i%10/5)
	}
	answers := pipeFrames(t, toPipe('p', `{"a":1}`)+toPipe('f', "")+toPipe('l', rows)+
		toPipe('l', rows+`{"a":1,"y":7}`)+toPipe('p', `{"a":1}`+"\n"+`{"a":"ten"}`)+toPipe('p', "\x81")+toPipe('r', "\x89SSVM, no more")+
		toPipe('d', "no model")+toPipe('?', "")+toPipe('f', "")+toPipe('p', `{"a":1.5}`)+toPipe('s', ""), args...)
	for i, want := range []string{
		`{"message":"nothing has been learned yet"}`, `{"message":"nothing has been learned yet"}`, "",
		`"field":"y","row":1200}`, `"field":"a","row":1}`, `"row":0}`, "checkpoint state", "not a model", "there is no request", "", "", "",
	} {
		a := answers[i]
		if (a.kind == 'e') != (want != "") || a.kind == 'e' && (!strings.Contains(a.payload, want) || !json.Valid([]byte(a.payload))) {
			t.Errorf("answer %d: %c %s, want %q", i, a.kind, a.payload, want)
		}
	}
	if got := decode[struct{ Consumed int }](t, answers[11].payload); got.Consumed != 1200 {
		t.Errorf("%d examples have been consumed", got.Consumed)
	}
	if got := answers[10].payload; len(got) != 16 {
		t.Errorf("a prediction of %d bytes", len(got))
	}
	for _, bad := range [][]string{{}, {"--codec", "csv"}, {"--codec", "json", "--model", "m.ssm"}, {"--codec", "json", "--learner", "nobody"}} {
		if code, out, text := streamsvm(t.Context(), append([]string{"replay", "--pipe", "-"}, bad...)...); code != int(cli.Usage) || out != "" {
			t.Errorf("%v: exit code %d, %s", bad, code, text)
		}
	}
}

// FuzzPipe: whatever comes, replay --pipe answers or ends with an error.
func FuzzPipe(f *testing.F) {
	row := `{"a":1.5,"b":"x","y":1}` + "\n" + `{"a":0.5,"b":"y","y":0}` + "\n"
	f.Add([]byte(toPipe('l', strings.Repeat(row, 8))+toPipe('f', "")+toPipe('p', row)+toPipe('x', row)+toPipe('s', "")+toPipe('c', "")), true)
	f.Add([]byte(toPipe('l', strings.Repeat("\x82\xa1x\xc4\x04\x00\x00\x80\x3f\xa1y\x01\x82\xa1x\xc4\x04\x00\x00\x80\xbf\xa1y\xff", 9))+toPipe('p', "\x81\xa1x\xc4\x04\x00\x00\x80\x3f")+toPipe('m', "")), false)
	f.Add([]byte(toPipe('l', "\x82\xa1x\x8e")+toPipe('r', "{}")), false)
	f.Add([]byte(toPipe('l', "{}\n\n")+toPipe('c', "")+toPipe('p', "\x80")+toPipe('l', "\x80")+toPipe('f', "")), true)
	f.Fuzz(func(t *testing.T, input []byte, events bool) {
		args := []string{"replay", "--pipe", "-", "--learner", "online", "--codec", "msgpack"}
		if events {
			args[len(args)-1] = "json"
		}
		var out, errs buffer
		switch code := program().Main(t.Context(), args, cli.Stdio{In: bytes.NewReader(input), Out: &out, Err: &errs, Getenv: func(string) (string, bool) { return "", false }}); code {
		case 0, int(cli.Data):
		default:
			t.Errorf("exit code %d: %s", code, errs.String())
		}
	})
}
