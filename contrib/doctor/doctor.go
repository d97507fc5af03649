// Package doctor finds out why training does not work with a cluster, a
// checkpoint directory and the records of a topic, and says what to type. It
// changes nothing. It also prints what has to be granted to a user.
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

// finding is what a check has found.
type finding struct {
	severity
	// Subject is what the finding is about, Text what is found.
	Subject, Text string
	// Remedy is what to do or type; empty where nothing need be done.
	Remedy string
	// Code is the exit code of a run that fails for it.
	Code cli.Code
}

// print writes the finding in one line, and one for each of the remedy.
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

// examine runs all checks, as far as one makes sense after another. Every
// finding is reported at once; those that are failures are returned. The error
// is that of ctx.
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

// network tries every broker named, and keeps a connection to the first one
// that can be used.
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

// advertised tries the addresses that the cluster tells clients to use.
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
