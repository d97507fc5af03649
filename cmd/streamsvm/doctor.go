package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Section: "train", Summary: "find out why train does not work here, and say what to type",
		Text: `
Takes the settings of train and tries everything that it needs, from the names
of the brokers to the retention of the topics, without changing anything. What
is wrong is named, with a command that repairs it where there is one. Exit code
1 says that train would not work.`,
		Example: "streamsvm doctor --config streamsvm.yaml",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			t.define(f)
			f.Check(t.check)
			return func(ctx context.Context, c *cli.Call) error {
				t.c = c
				return t.doctor(ctx)
			}
		},
	}
}

// severity of a finding.
type severity string

const (
	fine    severity = "ok"
	warning severity = "warn"
	failure severity = "FAIL"
)

// finding is what a check has found.
type finding struct {
	severity
	// subject is what the finding is about, text what is found.
	subject, text string
	// remedy is what to do or type; empty where nothing need be done.
	remedy string
	// code is the exit code of train --dry-run.
	code cli.Code
}

// checkup tries what train needs.
type checkup struct {
	*train
	conn  *kafkaio.Conn // nil if no broker can be reached
	found []finding
	// report is told about every finding at once.
	report func(finding)
}

func (d *checkup) add(f finding) {
	d.found = append(d.found, f)
	d.report(f)
}

func (d *checkup) ok(subject, format string, args ...any) {
	d.add(finding{fine, subject, fmt.Sprintf(format, args...), "", cli.OK})
}

func (d *checkup) warn(subject, text, remedy string) {
	d.add(finding{warning, subject, text, remedy, cli.OK})
}

func (d *checkup) fail(code cli.Code, subject, text, remedy string) {
	d.add(finding{failure, subject, text, remedy, code})
}

// failures returns what is wrong.
func (d *checkup) failures() []finding {
	return slices.DeleteFunc(slices.Clone(d.found), func(f finding) bool { return f.severity != failure })
}

// tool is the beginning of a command of Apache Kafka's for this cluster.
func (d *checkup) tool(name string) string {
	s := name + " --bootstrap-server " + strings.Join(d.brokers, ",")
	if d.tls || d.mechanism != "none" {
		s += " --command-config admin.properties"
	}
	return s
}

// examine runs all checks, as far as one makes sense after another.
func (d *checkup) examine(ctx context.Context) error {
	if err := d.settings(); err != nil {
		return err
	}
	snap := d.checkpoints()
	d.network(ctx)
	if d.conn == nil {
		return ctx.Err()
	}
	defer d.conn.Close()
	info, err := d.conn.Cluster(ctx)
	if err != nil {
		d.fail(cli.Unavailable, "cluster", err.Error(), "")
		return ctx.Err()
	}
	reachable := d.advertised(ctx, info)
	readable := d.inputs(ctx, info)
	d.outputs(ctx)
	d.consumerGroup(ctx)
	if readable && reachable && d.same(ctx, snap) {
		d.retention(ctx, snap)
		d.records(ctx, snap)
	}
	return ctx.Err()
}

// settings checks what needs no cluster. The error is about settings without
// which nothing can be tried.
func (d *checkup) settings() error {
	var err error
	if d.cfg, err = d.kafkaFlags.config(d.c); err != nil {
		return err
	}
	if err = d.brokersValid(d.c, d.cfg); err != nil {
		return err
	}
	bad := false
	for _, errs := range [][]error{d.learnFlags.check(d.c), d.sourceFlags.check(d.c), d.codecFlags.check(d.c), d.train.check(d.c)} {
		for _, err := range errs {
			if err != nil {
				bad = true
				d.fail(cli.CodeOf(err), "settings", strings.ReplaceAll(err.Error(), "\n", "; "), "")
			}
		}
	}
	if !bad {
		d.ok("settings", "learner %s, preset %s", d.learner, d.preset)
	}
	return nil
}

// network tries every broker named, and keeps a connection to the first one
// that can be used.
func (d *checkup) network(ctx context.Context) {
	for _, addr := range d.brokers {
		var passed []string
		conn, err := kafkaio.Dial(ctx, d.cfg, addr, func(s kafkaio.Stage, what string) {
			passed = append(passed, strings.TrimSpace(string(s)+" "+what))
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.unreachable("broker "+addr, err, "", "")
			continue
		}
		d.ok("broker "+addr, "%s", strings.Join(passed, "; "))
		if d.conn == nil {
			d.conn = conn
		} else {
			conn.Close()
		}
	}
}

func (d *checkup) unreachable(subject string, err error, context, also string) {
	var e *kafkaio.ReachError
	if !errors.As(err, &e) {
		d.fail(cli.Unavailable, subject, context+err.Error(), "")
		return
	}
	text := e.Reason
	if text == "" {
		text = e.Err.Error()
	}
	d.fail(cli.Unavailable, subject, fmt.Sprintf("%s%s: %s", context, e.Stage, text), e.Remedy+also)
}

// advertised tries the addresses that the cluster tells clients to use.
func (d *checkup) advertised(ctx context.Context, info *kafkaio.ClusterInfo) bool {
	named := map[string]bool{}
	for _, b := range d.brokers {
		named[b] = true
	}
	good := true
	for _, id := range slices.Sorted(maps.Keys(info.Brokers)) {
		addr := info.Brokers[id]
		if named[addr] {
			continue // tried already
		}
		conn, err := kafkaio.Dial(ctx, d.cfg, addr, nil)
		if err != nil {
			good = false
			d.unreachable("advertised listener "+addr, err, fmt.Sprintf("broker %d tells clients to find it there, but ", id),
				"; or set advertised.listeners of that broker to an address that can be reached from here")
			continue
		}
		conn.Close()
	}
	if good {
		d.ok("cluster "+info.ID, "%s, can be reached where advertised", count(len(info.Brokers), "broker"))
	}
	return good
}

// doctor prints all findings.
func (t *train) doctor(ctx context.Context) error {
	d := &checkup{train: t, report: func(f finding) { f.print(t.c) }}
	if err := d.examine(ctx); err != nil {
		return err
	}
	if n := len(d.failures()); n > 0 {
		return cli.Failf(cli.Findings, "%s found", count(n, "problem"))
	}
	return nil
}

// dryRun prints what is not as it should be, and fails as train would.
func (t *train) dryRun(ctx context.Context) error {
	d := &checkup{train: t, report: func(f finding) {
		if f.severity != fine {
			f.print(t.c)
		}
	}}
	if err := d.examine(ctx); err != nil {
		return kafkaError(err)
	}
	if bad := d.failures(); len(bad) > 0 {
		return cli.Failf(bad[0].code, "train would fail: %s: %s", bad[0].subject, bad[0].text)
	}
	if !t.c.Quiet {
		fmt.Fprintln(t.c.Out, "dry run: all is well")
	}
	return nil
}

func (f finding) print(c *cli.Call) {
	if f.severity == fine && c.Quiet {
		return
	}
	fmt.Fprintf(c.Out, "%-4s  %s: %s\n", f.severity, f.subject, f.text)
	if f.remedy != "" {
		fmt.Fprintf(c.Out, "      -> %s\n", strings.ReplaceAll(f.remedy, "\n", "\n         "))
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// parentOf returns the nearest directory above path that may exist.
func parentOf(path string) string { return filepath.Dir(filepath.Clean(path)) }

// same tells whether the topics are those that the checkpoint knows, as far as
// that can be found out.
func (d *checkup) same(ctx context.Context, snap *checkpoint.Snapshot) bool {
	if snap == nil {
		return true
	}
	replaced, err := trainer.ReplacedTopics(ctx, d.cfg, snap.Header, triedFor)
	if err != nil {
		return true // what keeps us from asking is among the findings
	}
	for _, name := range replaced {
		d.fail(cli.Data, "topic "+name, "it has been deleted and created again since the checkpoint, whose offsets mean other records now",
			"begin again with another checkpoint directory, or go on with --on-out-of-range earliest or latest")
	}
	return len(replaced) == 0
}
