// Package doctor finds out why training does not work with a cluster, a
// checkpoint directory and the records of a topic, and prints the commands that
// fix it. It changes nothing. It also prints the permissions that a user needs.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/topiclog"
)

// plan is what train would do with a cluster.
type plan struct{ contrib.Plan }

// reads lists the topics that are read.
func (p *plan) reads() []string {
	if p.Labels == "" {
		return p.Topics
	}
	return append(slices.Clone(p.Topics), p.Labels)
}

// severity of a finding.
type severity string

// The severities.
const (
	fine    severity = "ok"
	warning severity = "warn"
	failure severity = "FAIL"
)

// finding is the result of a check.
type finding struct {
	severity
	// Subject is the thing checked, Text the result.
	Subject, Text string
	// Remedy is a command or advice; empty if nothing needs to be done.
	Remedy string
	// Code is the exit code of a run that fails because of the finding.
	Code cli.Code
}

// print writes the finding on one line, and the remedy with one line per step.
func (f finding) print(w io.Writer) {
	fmt.Fprintf(w, "%-4s  %s: %s\n", f.severity, f.Subject, f.Text)
	if f.Remedy != "" {
		fmt.Fprintf(w, "      -> %s\n", strings.ReplaceAll(f.Remedy, "\n", "\n         "))
	}
}

// checks tries everything that the plan needs.
type checks struct {
	*plan
	conn   *reach.Broker // nil if no broker can be reached
	failed []finding
	report func(finding)
}

func (d *checks) ok(subject, format string, args ...any) {
	d.report(finding{fine, subject, fmt.Sprintf(format, args...), "", cli.OK})
}

func (d *checks) warn(subject, text, remedy string) {
	d.report(finding{warning, subject, text, remedy, cli.OK})
}

func (d *checks) fail(code cli.Code, subject, text, remedy string) {
	f := finding{failure, subject, text, remedy, code}
	d.failed = append(d.failed, f)
	d.report(f)
}

func (d *checks) unavailable(subject, text, remedy string) {
	d.fail(cli.Unavailable, subject, text, remedy)
}

// examine runs all checks, as long as the results of earlier ones permit. Every
// finding is reported at once; failures are returned. The error is the error
// of ctx.
func examine(ctx context.Context, p *plan, report func(finding)) ([]finding, error) {
	d := &checks{plan: p, report: report}
	for _, err := range p.Settings {
		d.fail(d.Code(err), "settings", strings.ReplaceAll(err.Error(), "\n", "; "), "")
	}
	if len(p.Settings) == 0 {
		d.ok("settings", "%s", p.Summary)
	}
	snap := d.checkpoints()
	d.network(ctx)
	if d.conn == nil {
		return d.failed, ctx.Err()
	}
	defer d.conn.Close()
	cluster, err := d.cluster(ctx)
	if err != nil {
		d.unavailable("cluster", err.Error(), "")
		return d.failed, ctx.Err()
	}
	reachable := d.advertised(ctx, cluster)
	readable := d.inputs(ctx, cluster)
	d.outputs(ctx)
	if topic, ok := topiclog.StateTopic(d.Checkpoint); ok {
		snap = d.stateTopic(ctx, topic)
	}
	d.transactions(ctx, cluster)
	d.consumerGroup(ctx)
	if d.registry(ctx) && readable && reachable && d.same(ctx, snap) {
		d.retention(ctx, snap)
		d.records(ctx, snap)
	}
	return d.failed, ctx.Err()
}

// dial connects to one broker.
func (d *checks) dial(ctx context.Context, addr string) (*reach.Broker, error) {
	k := &d.Kafka
	return reach.Dial(ctx, reach.Config{Brokers: []string{addr}, ClientID: k.ClientID, TLS: k.TLS, SASL: k.SASL, Dial: k.Dial, Timeout: k.RequestTimeout})
}

// network tries every configured broker, and keeps a connection to the first usable
// one.
func (d *checks) network(ctx context.Context) {
	for _, addr := range d.Kafka.Brokers {
		conn, err := d.dial(ctx, addr)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.unreachable("broker "+addr, err, "", "")
			continue
		}
		d.ok("broker "+addr, "%s", strings.Join(conn.Passed, "; "))
		if d.conn == nil {
			d.conn = conn
		} else {
			conn.Close()
		}
	}
}

func (d *checks) unreachable(subject string, err error, context, also string) {
	var e *reach.Error
	if !errors.As(err, &e) {
		d.unavailable(subject, context+err.Error(), "")
		return
	}
	d.unavailable(subject, fmt.Sprintf("%s%s: %s", context, e.Step, e.Text()), e.Remedy+also)
}

// advertised tries the addresses that the cluster advertises to clients.
func (d *checks) advertised(ctx context.Context, c *cluster) bool {
	good := true
	for _, id := range slices.Sorted(maps.Keys(c.brokers)) {
		addr := c.brokers[id]
		if slices.Contains(d.Kafka.Brokers, addr) {
			continue // tried already
		}
		conn, err := d.dial(ctx, addr)
		if err != nil {
			good = false
			d.unreachable("advertised listener "+addr, err, fmt.Sprintf("broker %d tells clients to find it there, but ", id),
				"; or set advertised.listeners of that broker to an address that can be reached from here")
			continue
		}
		conn.Close()
	}
	if good {
		d.ok("cluster "+c.id, "%s, can be reached where advertised", spell.Count(len(c.brokers), "broker"))
	}
	return good
}
