package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// TestUsageErrors: what is wrong with the command line is found before anything
// is tried, and the exit code is 64, whatever the command. There is no broker:
// a command that begins with its work ends with 69.
func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	data, model := filepath.Join(dir, "a.json"), filepath.Join(dir, "m.ssm")
	write(t, data, strings.Repeat("{\"x\":[0.5,1],\"y\":1}\n{\"x\":[-0.5,1],\"y\":-1}\n", 9))
	must(t, "replay", data, "--learner", "sbp", "--tune=off", "--warmup", "2", "--model", model, "-q")
	noFormat := filepath.Join(dir, "noformat")
	write(t, noFormat, "x")

	const away = "--brokers 127.0.0.1:1"
	var lines []string
	add := func(prefix string, list ...string) {
		for _, l := range list {
			lines = append(lines, strings.TrimSpace(prefix+" "+l))
		}
	}
	add("", "nosuch", "--nosuch", "help nosuch", "version x", "--version x")
	for _, c := range program().Commands {
		add(c.Name, "--nosuch", "--log-level loud", "--log-format xml", "--quiet=maybe", "--config", "--log-level")
		if c.MinArgs > 0 {
			add(c.Name, "")
		}
		if c.MaxArgs >= 0 {
			add(c.Name, strings.TrimSpace(strings.Repeat("extra ", c.MaxArgs+1)))
		}
	}
	add("demo", "--count 5", "--count -1", "--learner nobody", "--set x=1", "--set x", "--seed x")
	for _, command := range []string{"train", "copy r.ssr", "predict --model-topic m --predictions-topic p"} {
		add(command, "--brokers=", "--brokers nohost", "--brokers host:port", "--brokers host:99999")
		add(command+" --topics a "+away, "--start soon", "--topics a", "--topic-wait 5", "--topic-wait x",
			"--tls-ca none.pem", "--tls-key none.pem", "--tls --tls-ca none.pem", "--tls --tls-ca DATA", "--tls --tls-cert none.pem", "--tls --tls-key none.pem",
			"--sasl-mechanism gssapi", "--sasl-username u", "--sasl-mechanism plain", "--sasl-mechanism plain --sasl-username u", "--sasl-password p",
			"--sasl-mechanism plain --sasl-username u --sasl-password-file none", "--sasl-mechanism oauthbearer", "--sasl-mechanism oauthbearer --oauth-token-file none",
			"--oauth-scopes s", "--sasl-mechanism oauthbearer --oauth-client-id me", "--sasl-mechanism oauthbearer --oauth-token-url http://127.0.0.1/",
			"--sasl-mechanism oauthbearer --oauth-token-url nowhere", "--sasl-mechanism oauthbearer --oauth-token-url https://127.0.0.1/ --oauth-client-id me", "--oauth-extensions a=b")
	}
	add("train "+away, "", "--topics=")
	add("train --topics a "+away, "--tolerance maybe", "--codec avro", "--labels 7", "--max-features -1", "--csv-separator ab", "--codec csv --csv-separator=",
		"--codec csv --label-column x", "--merge never", "--lateness -1s", "--lateness 5", "--fetch-max-bytes -1", "--partitions -1", "--partitions x", "--partitions 1,1",
		"--learner nobody", "--preset nope", "--set nope=1", "--set gamma", "--set c=-1", "--tune maybe", "--task sort", "--learner dsg --task regress", "--scale huge",
		"--hash-dim -1", "--warmup -1", "--window -1", "--seed -1", "--model-topic m", "--model-topic a --checkpoint s",
		"--checkpoint s --checkpoint-retain 0", "--checkpoint s --checkpoint-interval -1s", "--listen nowhere", "--listen 8080",
		"--listen 127.0.0.1:99999", "--shutdown-timeout 0s", "--max-record-bytes -1", "--max-record-bytes 10",
		"--model-name a/b --model-topic m --checkpoint s", "--model-name= --model-topic m --checkpoint s", "--join a=b", "--join nope --labels-field y", "--labels-topic l")
	add("model promote --model-topic m "+away, "--version 0")
	add("replay DATA --learner sbp --tune=off", "--gate auc", "--promote A", "--test none.json", "--passes 0", "--limit -1", "--labelled -2", "--labelled 100", "--holdout 1", "--holdout -1", "--holdout NaN",
		"--holdout 0.5 --test DATA", "--tolerance maybe", "--checkpoint-every -1", "--join a=b", "--shuffle x", "--set kernel=rbf --set gamma=x")
	add("replay", "NOFORMAT", "DATA --codec csv --label-column zzz", "-")
	add("predict", "", "DATA", "--model-topic= DATA")
	add("predict --model MODEL", "--model-topic m DATA", "--model-name x DATA", "NOFORMAT", "--output xml DATA", "--predictions-topic p DATA", "--positions x DATA", "--until-end DATA",
		"--listen 127.0.0.1:0 --max-body-bytes 0", "--listen 127.0.0.1:0 --max-body-bytes -1", "--keep a DATA", "--errors-topic e DATA", "--cloudevents DATA", "--listen nowhere", "--listen 8080", "--listen 127.0.0.1:99999",
		"--codec nope DATA", "--labels 77 DATA", "--codec csv --csv-separator ab", "--max-features -1 DATA")
	add("predict --model MODEL "+away, "--topics t", "--topics t --predictions-topic t", "--topics t --predictions-topic p --positions NOFORMAT")
	add("predict --model-topic m "+away, "--topics t", "--topics t --predictions-topic p --start soon", "--topics m --predictions-topic p", "--topics t --predictions-topic m",
		"--model-name a/b DATA", "--codec csv --csv-separator ab", "NOFORMAT", "--positions x", "--max-features -1", "--codec csv --label-column zz",
		"--listen 127.0.0.1:0 --max-body-bytes -1", "--listen nowhere")
	add("model follow", "", "x")
	add("model follow --model-topic m "+away, "--model-name a/b", "--until -1", "--topic-wait 5")
	add("generate", "nosuch", "nosuch --describe", "moons --set x=1", "moons --set noise=x", "moons --count -1", "moons --codec nope", "moons --rate -1", "moons --rate NaN --count 3",
		"moons --rate x", "moons --partitions 3 --count 3", "--set x=1", "--topic t", "--out f", "--describe")
	add("generate moons --topic t "+away, "--out x.json", "--partitions -1", "--rate -1")
	add("copy r.ssr "+away, "", "--topics a --limit -1")
	add("copy DATA", "", "--topic=", "--topics a --rate 5", "a.ssr b.ssr --topics a")
	add("copy DATA --topic t "+away, "--passes 0", "--passes -1", "--rate -1", "--partitions -1", "--partition-by x", "--codec nope", "--partitions 1,2", "--merge ordered")
	add("copy", "NOFORMAT --topic t "+away)
	add("dlq", "lst", "list "+away)
	add("dlq list t "+away, "--reason nope", "--group g", "--dlq=", "t")
	add("dlq replay t "+away, "--json", "--from soon", "--group=", "--reason label")
	add("topic", "", "lst", "list x", "create", "create x --json", "list --partitions 2", "create x --partitions -1", "create x --topic-config y")
	add("topic", "", "lst", "list x", "create", "create x --json", "list --partitions 2", "create x --partitions -1", "create x --topic-config y")
	add("broker", "--addr nowhere", "--addr 127.0.0.1:99999", "--addr 192.0.2.1:9092", "--addr 0.0.0.0:9092", "--addr 9092")
	add("model inspect", "", "--until 1 MODEL", "--model-topic=", "--model-topic m --model-name a/b "+away)
	add("model", "exprt", "export", "export a b", "export MODEL --model-topic m "+away,
		"export --model-topic m --model-name a/b "+away)
	add("learners", "nobody", "scs --all=x")
	add("config", "lnt", "lint", "lint DATA nosuch", "reference", "show nosuch", "show train x", "show train -- --nosuch", "show train -- --lateness 5", "show train -- extra")
	add("config acls", "-- --topics a", "--principal u", "king --principal u -- --topics a", "sift --principal u -- --topics a", "train --principal u -- --nosuch")
	add("doctor", "nowhere", "ftp://x/", "http://[::1", "127.0.0.1:8080")

	files := strings.NewReplacer("DATA", data, "MODEL", model, "NOFORMAT", noFormat)
	slices.Sort(lines)
	for _, l := range slices.Compact(lines) {
		code, out, said := streamsvm(t.Context(), strings.Fields(files.Replace(l))...)
		if cli.Code(code) != cli.Usage || !strings.HasPrefix(lastLine(said), "streamsvm: ") {
			t.Errorf("%s: exit code %d, %.100s%s", l, code, out, lastLine(said))
		}
	}
}
