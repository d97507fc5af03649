package topiclog

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Log is a log as seen by one of its writers. Only one goroutine may use it at a time.
type Log struct {
	// Topics that hold the log; a log with claims has one.
	Topics []string
	// Name of the log for messages, such as "model clicks".
	Name string
	// Writer holds the log's transactional id. Logs that are written in one
	// transaction share it.
	Writer Writer
	// Fold is called with every record that a scan reads, including tombstones, and
	// reports whether the record belongs to the log. The Log tracks those by key, see
	// Replace. Fold calls Saw for claims.
	Fold func(*stream.Record) bool
	// Lease, if not nil, takes the place of claims in the log: it returns an error once
	// another process owns the log.
	Lease func(context.Context) error

	next       stream.Offsets   // where the next scan starts
	retained   map[string]int32 // partitions of the records that compaction keeps, by key
	newest     Claim
	unreadable error // the newest claim cannot be read
	own        Claim
}

// From makes the next scan start at these offsets; partitions without one are read
// from their beginning.
func (l *Log) From(next stream.Offsets) { l.next = next }

// Scan reads the records added to the log since the last scan. It fails if the newest
// claim cannot be read.
func (l *Log) Scan(ctx context.Context) error {
	next, err := l.Writer.Scan(ctx, l.Topics, l.next, func(r *stream.Record) {
		if l.Fold(r) {
			l.retain(r)
		}
	})
	if err != nil {
		return err
	}
	l.next = maps.Clone(next)
	return l.unreadable
}

func (l *Log) retain(r *stream.Record) {
	if r.Value == nil {
		delete(l.retained, string(r.Key))
		return
	}
	if l.retained == nil {
		l.retained = map[string]int32{}
	}
	l.retained[string(r.Key)] = r.Partition
}

// Replace returns recs and a tombstone for every retained record whose key has one of the
// prefixes and is not among the keys of recs.
func (l *Log) Replace(recs []stream.Record, prefixes ...string) []stream.Record {
	var at time.Time // zero: now
	if len(recs) > 0 {
		at = recs[0].Time
	}
	written := map[string]bool{}
	for i := range recs {
		written[string(recs[i].Key)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(l.retained)) {
		if !written[key] && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			recs = append(recs, stream.Record{Topic: l.Topics[0], Partition: l.retained[key], Time: at, Key: []byte(key)})
		}
	}
	return recs
}

// Entry is the part of an Append for one log.
type Entry struct {
	Log     *Log
	Records []stream.Record
	// Along are records that are written in the same transaction, to topics without a
	// log.
	Along []stream.Record
	// Check is called after each scan. It reports whether the records are already in the
	// log, or returns why they must not be written.
	Check func() (written bool, err error)
	// Done, if not nil, is called once the records are written.
	Done func()
}

// Append writes all entries in one transaction and returns when all in-sync replicas
// have it. Their logs share a Writer. It waits out outages until ctx ends. Its errors
// come from scanning and from Check, or are refusals by the brokers that a retry does
// not change.
func Append(ctx context.Context, entries ...Entry) error {
	var recs []stream.Record
	for _, e := range entries {
		recs = append(append(recs, e.Records...), e.Along...)
	}
	if err := write(ctx, entries[0].Log.Writer, entries, recs); err != nil {
		return err
	}
	for _, e := range entries {
		for i := range e.Records {
			e.Log.retain(&e.Records[i])
		}
		if e.Done != nil {
			e.Done()
		}
	}
	return nil
}

func write(ctx context.Context, w Writer, entries []Entry, recs []stream.Record) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if !w.Held() {
			if _, err := check(ctx, w, entries); err != nil {
				return err
			}
			if err := w.Take(ctx); err != nil {
				return err
			}
			if written, err := check(ctx, w, entries); written || err != nil {
				return err
			}
		}
		err := w.Write(ctx, recs...)
		if err == nil || kafkaio.Permanent(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// check reports whether all entries are written, or returns why one must not be written.
func check(ctx context.Context, w Writer, entries []Entry) (written bool, err error) {
	written = true
	for _, e := range entries {
		if e.Log.Lease != nil {
			if err := e.Log.Lease(ctx); err != nil {
				return false, err
			}
			if !w.Held() { // taking the id may undo what a scan sees now
				written = false
				continue
			}
		}
		if err := e.Log.Scan(ctx); err != nil {
			return false, err
		}
		there, err := e.Check()
		if err != nil {
			return false, err
		}
		written = written && there
	}
	return written, nil
}
