package gate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/stream"
)

// The gate decides which model is the champion, and knows nothing of versions. Every
// challenger is published as its own version: when one has been taken, the run publishes
// at once and calls Published. When the champion changes, the alias is pointed to that
// version once the version and the checkpoint that records the change are durable.
//
// A checkpoint also holds, in Meta, how many changes had been published before it. The
// next run repeats a change that may not have been published, and no other. So an alias
// that was changed by hand stays until the gate's next decision.

// Changed implements promote.Gate.
func (g *gate) Changed() bool { return g.changes() != g.settled }

// changes counts the changes of the champion.
func (g *gate) changes() uint64 { return g.promotions + g.demotions }

// Published implements promote.Gate.
func (g *gate) Published(version uint64, created time.Time) {
	if g.challenger != nil {
		g.challenger.version, g.challenger.created = version, created
	}
}

// Champion implements promote.Gate.
func (g *gate) Champion() (*stream.Update, stream.Promotion, error) {
	c, why := g.champion, stream.Promotion{By: "gate", Reason: g.last, Previous: g.previous}
	g.settled = g.changes()
	if c == nil || c.version == 0 {
		return nil, why, nil
	}
	payload, err := c.pipe.Pack().AppendBinary(nil)
	if err != nil {
		return nil, why, fmt.Errorf("encoding the champion: %w", err)
	}
	u := c.update
	u.Kind, u.Learner, u.Version, u.Created = stream.Full, c.pipe.Learner, c.version, c.created
	u.Offsets, u.Payload, u.Hash = u.Offsets.Clone(), payload, xxhash.Sum64(payload)
	g.previous = c.version
	return &u, why, nil
}

// Meta implements promote.Gate. The text is
//
//	changes version; examples:version:created …
//
// where version is the version that the alias points to, and the rest describes the
// snapshots that are known to have been published, created in ms since 1970.
func (g *gate) Meta() string {
	b := fmt.Appendf(nil, "%d %d;", g.settled, g.previous)
	for _, s := range []*snapshot{g.champion, g.challenger, g.before} {
		if s != nil && s.version > 0 {
			b = fmt.Appendf(b, " %d:%d:%d", s.examples, s.version, s.created.UnixMilli())
		}
	}
	return string(b)
}

// Resume implements promote.Gate.
func (g *gate) Resume(meta string) error {
	if meta == "" {
		return nil
	}
	bad := func(err error) error { return fmt.Errorf("the versions at the gate, %q: %w", meta, err) }
	head, rest, _ := strings.Cut(meta, ";")
	n, err := numbers(head, " ", 2)
	if err != nil {
		return bad(err)
	}
	g.settled, g.previous = n[0], n[1]
	for part := range strings.FieldsSeq(rest) {
		n, err := numbers(part, ":", 3)
		if err != nil {
			return bad(err)
		}
		for _, s := range []*snapshot{g.champion, g.challenger, g.before} {
			if s.id() == n[0] && s != nil {
				s.version, s.created = n[1], time.UnixMilli(int64(n[2])).UTC()
			}
		}
	}
	return nil
}

// numbers reads count numbers separated by sep.
func numbers(text, sep string, count int) ([]uint64, error) {
	list := make([]uint64, count)
	parts := strings.Split(text, sep)
	if len(parts) != count {
		return nil, fmt.Errorf("%d numbers in %q, want %d", len(parts), text, count)
	}
	for i, p := range parts {
		var err error
		if list[i], err = strconv.ParseUint(p, 10, 63); err != nil {
			return nil, err
		}
	}
	return list, nil
}
