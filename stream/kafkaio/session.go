package kafkaio

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// SessionOptions are the options of NewSession.
type SessionOptions struct {
	Config
	// Topics to read, at least one. All members of a group name the same ones.
	Topics []string
	// Group is the consumer group that assigns the partitions and keeps the positions.
	Group string
	// Instance, if not empty, makes the member static: restarted under this name within
	// SessionTimeout it gets its partitions back, and any other process with the name is
	// fenced. No two processes may use the same name. Members without one are
	// interchangeable, and any number may come and go.
	Instance string
	// Start is the start position of partitions for which the group has no position,
	// StartTime the time for StartTimestamp. If a position no longer exists, reading
	// continues at the oldest record.
	Start     StartAt
	StartTime time.Time

	// MaxRecords and MaxWait bound what Fetch returns, and so a transaction: it
	// returns this many records, or those that have come within this time after the
	// first one. 0 is 10,000 and 200 ms.
	MaxRecords int
	MaxWait    time.Duration
	// TransactionTimeout is how long the brokers keep a transaction open after its
	// member has stopped answering: for this long readers of its partitions see
	// nothing new. 0 is 20 s.
	TransactionTimeout time.Duration
	// SessionTimeout is how long a member may be silent before others get its
	// partitions. 0 is 10 s. With Server the brokers' own setting applies.
	SessionTimeout time.Duration
	// Server lets the brokers assign the partitions (KIP-848, Apache Kafka 4.0 and
	// later) instead of one of the members. All members must agree.
	Server bool

	// Rack is the rack of this member: it reads from the replica there, if the brokers
	// have racks and a selector that uses them (KIP-392), and otherwise from the
	// leaders.
	Rack string

	// TopicWait is as in SourceOptions.
	TopicWait time.Duration
}

func (o *SessionOptions) setDefaults() {
	o.Start = cmp.Or(o.Start, StartEarliest)
	o.MaxRecords = cmp.Or(o.MaxRecords, 10_000)
	o.MaxWait = cmp.Or(o.MaxWait, 200*time.Millisecond)
	o.TransactionTimeout = cmp.Or(o.TransactionTimeout, 20*time.Second)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 10*time.Second)
}

// Validate returns an error that names the first option out of its range.
func (o *SessionOptions) Validate() error {
	read := SourceOptions{Config: o.Config, Topics: o.Topics, Start: o.Start, StartTime: o.StartTime}
	if err := read.Validate(); err != nil {
		return err
	}
	switch {
	case o.Group == "":
		return errors.New("kafka session: no group given")
	case o.MaxRecords < 0 || o.MaxWait < 0 || o.TransactionTimeout < 0 || o.SessionTimeout < 0:
		return errors.New("kafka session: a bound is negative")
	}
	return nil
}

// Session reads as one of several members of a consumer group. It writes the
// results computed from the records, together with the positions behind them, in
// transactions. So the results are written exactly once, as seen by readers of
// committed records, even if members are killed or paused or lose their
// partitions meanwhile. The results of a partition are written in the order of
// its records.
//
// The positions are committed with the member's id in the group and its generation
// (KIP-447), so brokers refuse the transaction of a member whose partitions have moved to
// others. The transactional id need not identify the member: it is random, and begins
// with the name of the group and a hyphen.
//
// A Session stores nothing of its own. Only one goroutine may use it at a time, but
// any goroutine may call Lag and Positions.
//
// It uses franz-go's GroupTransactSession: kafka-go supports neither transactional
// writes nor the group's generation in a transactional commit.
type Session struct {
	opt SessionOptions
	c   *client
	id  string // transactional

	mu     sync.Mutex
	kgo    *kgo.GroupTransactSession
	ends   stream.Offsets // of partitions, as of their last fetch
	failed []time.Time    // times of recent failures of sessions with the brokers

	taken    atomic.Bool    // another process is this instance now
	answered atomic.Int64   // time of the last answer of a broker, in ns
	told     time.Time      // time of the last logged error of the group
	began    stream.Offsets // start offsets of partitions without a position in the group
	looked   time.Time      // time of the last look into an outage
	down     time.Time      // start of the current outage; zero without one
}

// SessionError says that sessions of a member with the brokers fail again and
// again: the program should restart.
type SessionError struct {
	ID  string // transactional
	Err error  // of the last session
}

func (e *SessionError) Error() string {
	return fmt.Sprintf("kafka: %d sessions of %s have failed within %v, the last one: %s", maxFailures, e.ID, failureWindow, e.Err)
}

func (e *SessionError) Unwrap() error { return e.Err }

// A member gives up after maxFailures failed sessions within failureWindow.
const (
	maxFailures   = 3
	failureWindow = time.Minute
)

// NewSession joins the group. It waits for topics and brokers as NewSource does.
func NewSession(ctx context.Context, o SessionOptions) (*Session, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	c, err := o.Config.open(o.Topics)
	if err != nil {
		return nil, err
	}
	s := &Session{opt: o, c: c, id: o.Group + "-" + cmp.Or(o.Instance, rand.Text()), ends: stream.Offsets{}, began: stream.Offsets{}}
	if _, err = c.waitTopics(ctx, o.Topics, o.TopicWait, 0); err == nil {
		err = s.open()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return s, nil
}

// open joins the group anew.
func (s *Session) open() error {
	o := &s.opt
	start := kgo.NewOffset().AtStart()
	switch o.Start {
	case StartLatest:
		start = kgo.NewOffset().AtEnd()
	case StartTimestamp:
		start = kgo.NewOffset().AfterMilli(o.StartTime.UnixMilli())
	}
	opts := []kgo.Opt{
		kgo.TransactionalID(s.id), kgo.TransactionTimeout(o.TransactionTimeout),
		kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topics...),
		kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.SessionTimeout(o.SessionTimeout), kgo.RebalanceTimeout(10 * time.Second),
		kgo.HeartbeatInterval(min(o.SessionTimeout/5, 3*time.Second)), kgo.Rack(o.Rack),
		kgo.MetadataMaxAge(10 * time.Second), // so the leader of the group finds added partitions
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(r *kgo.Record, n int) int { return int(r.Partition) % n }
		})),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(s.c.timeout),
		kgo.UnknownTopicRetries(20),
		// The options that reach uses for single requests are too strict here.
		kgo.MaxVersions(kversion.Stable()), kgo.RequestRetries(20), kgo.RetryTimeout(30 * time.Second),
		kgo.WithHooks(watcher{s}),
		kgo.AdjustFetchOffsetsFn(func(ctx context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return at, s.begin(ctx, at, start)
		}),
	}
	if o.Instance != "" {
		opts = append(opts, kgo.InstanceID(o.Instance))
	}
	if o.Server {
		opts = append(opts, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	} else {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	s.answered.Store(time.Now().UnixNano())
	k, err := kgo.NewGroupTransactSession(s.c.cfg.reach().Options(opts...)...)
	if err != nil {
		return fmt.Errorf("kafka: group %s: %w", o.Group, err)
	}
	s.mu.Lock()
	s.kgo = k
	s.mu.Unlock()
	return nil
}

// begin replaces start, which stands for a position that the group does not have, by
// an offset. Otherwise franz-go's client would return to start when the first transaction
// is aborted, and this one when a session fails, and records that came before then or
// meanwhile would be read or skipped by mistake.
func (s *Session) begin(ctx context.Context, at map[string]map[int32]kgo.Offset, start kgo.Offset) error {
	var fresh []stream.Partition
	s.mu.Lock()
	for topic, list := range at {
		for id, o := range list {
			p := stream.Partition{Topic: topic, ID: id}
			if o != start {
				delete(s.began, p)
			} else if _, known := s.began[p]; !known {
				fresh = append(fresh, p)
			}
		}
	}
	s.mu.Unlock()
	var found stream.Offsets
	if len(fresh) > 0 {
		err := retry(ctx, s.c, "list offsets", 0, func(ctx context.Context) (err error) {
			found, err = s.c.starts(ctx, fresh, s.opt.Start, s.opt.StartTime)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.began, found)
	for topic, list := range at {
		for id := range list {
			if next, ok := s.began[stream.Partition{Topic: topic, ID: id}]; ok {
				list[id] = kgo.NewOffset().At(next)
			}
		}
	}
	return nil
}

// watcher receives the events of franz-go's client.
type watcher struct{ *Session }

// OnBrokerRead implements kgo.HookBrokerRead: it records that brokers answer.
func (s watcher) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err == nil {
		s.answered.Store(time.Now().UnixNano())
	}
}

// OnGroupManageError implements kgo.HookGroupManageError. If another process has
// become this member, it must end the session at once: otherwise this process would
// take the place back.
func (s watcher) OnGroupManageError(err error) {
	if errors.Is(err, kerr.FencedInstanceID) && !s.taken.Swap(true) {
		s.mu.Lock()
		k := s.kgo
		s.mu.Unlock()
		if k != nil {
			crash.Go(k.Close)
		}
	}
}

// Fetch appends the next records of this member's partitions, within MaxRecords and
// MaxWait; it waits for the first one. Their bytes may be kept. After an error the
// Session can only be closed. The error is that of ctx, ErrFenced if another process
// is this member, a *SessionError, or the brokers' refusal.
func (s *Session) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	n := len(dst)
	var until time.Time
	for {
		wait := time.Second
		if len(dst) > n {
			if wait = time.Until(until); wait <= 0 || len(dst)-n >= s.opt.MaxRecords {
				return dst, nil
			}
		}
		pctx, cancel := context.WithTimeout(ctx, wait)
		fetches := s.kgo.PollRecords(pctx, s.opt.MaxRecords-(len(dst)-n))
		cancel()
		if ctx.Err() != nil {
			return dst, ctx.Err()
		}
		if s.taken.Load() {
			return dst, s.takenOver()
		}
		for _, e := range fetches.Errors() {
			if err := s.judge(e); err != nil {
				return dst, err
			}
		}
		if err := s.outage(ctx); err != nil {
			return dst, err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if p.Err == nil {
				s.mu.Lock()
				s.ends[stream.Partition{Topic: p.Topic, ID: p.Partition}] = p.LastStableOffset
				s.mu.Unlock()
			}
			for _, r := range p.Records {
				dst = append(dst, stream.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key, Value: r.Value})
				if len(r.Headers) > 0 {
					h := make([]stream.Header, len(r.Headers))
					for i := range r.Headers {
						h[i] = stream.Header{Key: r.Headers[i].Key, Value: r.Headers[i].Value}
					}
					dst[len(dst)-1].Headers = h
				}
			}
		})
		if until.IsZero() && len(dst) > n {
			until = time.Now().Add(s.opt.MaxWait)
		}
	}
}

// judge returns nil if reading continues by itself after an error of polling.
func (s *Session) judge(e kgo.FetchError) error {
	var lost *kgo.ErrDataLoss
	var ke *kerr.Error
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, context.Canceled):
		return nil // ours
	case errors.Is(e.Err, kgo.ErrClientClosed):
		return s.takenOver()
	case errors.As(e.Err, &lost):
		s.c.log.Error("kafka: offset out of range, records are lost or repeated", "topic", e.Topic, "partition", e.Partition, "err", e.Err)
		return nil
	case errors.As(e.Err, &ke):
		if err := fmt.Errorf("kafka: group %s: %w", s.opt.Group, kafka.Error(ke.Code)); Permanent(err) || unfit(ke) {
			return err
		}
	}
	if now := time.Now(); now.Sub(s.told) > diagnoseEvery {
		s.told = now
		s.c.log.Warn("kafka: trying again", "group", s.opt.Group, "topic", e.Topic, "partition", e.Partition, "err", e.Err)
	}
	return nil
}

// unfit reports whether the group refuses this member for good.
func unfit(err *kerr.Error) bool {
	switch err {
	case kerr.InconsistentGroupProtocol, kerr.InvalidSessionTimeout, kerr.GroupMaxSizeReached, kerr.InvalidGroupID:
		return true
	}
	return false
}

// outage checks whether brokers answer at all. A member hears from them at least
// at each heartbeat.
func (s *Session) outage(ctx context.Context) error {
	down := time.Since(time.Unix(0, s.answered.Load()))
	switch {
	case down < 2*stuckAfter:
		if !s.down.IsZero() {
			s.c.log.Info("kafka: broker is back", "doing", "read as "+s.id, "down", time.Since(s.down).Round(time.Millisecond))
			s.down = time.Time{}
		}
		return nil
	case s.down.IsZero():
		s.down = time.Now().Add(-down)
		s.c.log.Warn("kafka: no usable answer, trying again", "doing", "read as "+s.id)
	}
	if time.Since(s.looked) > diagnoseEvery {
		s.looked = time.Now()
		return s.c.refused(ctx)
	}
	return nil
}

// Commit writes the records and the positions behind all that Fetch has returned
// in one transaction. A record goes to the partition that it names, modulo the
// number of partitions of its topic. A zero Time becomes the current time.
//
// If it returns false, nothing has been written, and Fetch returns the same records
// again, or does so in another member that has their partitions now. Errors are the
// errors of Fetch, or say that a record cannot be written. The end of ctx does not stop
// Commit; TransactionTimeout + SessionTimeout limits it.
func (s *Session) Commit(ctx context.Context, recs ...stream.Record) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.TransactionTimeout+s.opt.SessionTimeout)
	defer cancel()
	defer time.AfterFunc(stuckAfter, crash.Func(func() {
		s.c.log.Warn("kafka: a write is taking long", "transactional_id", s.id, "records", len(recs))
	})).Stop()
	if committed, err = s.commit(ctx, recs); err == nil {
		return committed, nil
	}
	if s.taken.Load() {
		return false, s.takenOver()
	}
	var ke *kerr.Error
	if errors.As(err, &ke) && ke != kerr.FencedInstanceID {
		if refused := fmt.Errorf("kafka: transaction of %s: %w", s.id, kafka.Error(ke.Code)); Permanent(refused) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			return false, refused
		}
	}
	return false, s.again(ctx, err)
}

func (s *Session) commit(ctx context.Context, recs []stream.Record) (bool, error) {
	if err := s.kgo.Begin(); err != nil {
		return false, err
	}
	var mu sync.Mutex
	var first error
	written := map[stream.Partition]bool{}
	for i := range recs {
		r := &recs[i]
		k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		s.kgo.Produce(ctx, k, func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			first = cmp.Or(first, err)
			if err == nil {
				written[stream.Partition{Topic: r.Topic, ID: r.Partition}] = true
			}
		})
	}
	if err := s.kgo.Client().Flush(ctx); err != nil {
		return false, err
	}
	mu.Lock()
	failed := first
	mu.Unlock()
	for p := range written {
		if err := reach.Settle(ctx, s.kgo.Client(), p.Topic, p.ID); err != nil {
			return false, err
		}
	}
	if failed != nil {
		_, err := s.kgo.End(ctx, kgo.TryAbort)
		return false, cmp.Or(failed, err)
	}
	crash.Hold()
	return s.kgo.End(ctx, kgo.TryCommit)
}

// again opens a new session with the brokers after the current one has failed, mostly
// because they have aborted a transaction that took too long.
func (s *Session) again(ctx context.Context, why error) error {
	// If another process has taken this instance's name, the next heartbeat says so.
	// Joining the group before then would take its place. Refused positions are no proof:
	// a member that was silent for too long rejoins by itself under another id, and what
	// it commits under the old one meanwhile is fenced by its own rejoining.
	if s.opt.Instance != "" && (errors.Is(why, kerr.ProducerFenced) || errors.Is(why, kerr.InvalidProducerEpoch) || errors.Is(why, kerr.FencedInstanceID)) {
		pctx, cancel := context.WithTimeout(ctx, min(s.opt.SessionTimeout/5, 3*time.Second)+time.Second)
		for pctx.Err() == nil && !s.taken.Load() {
			s.kgo.PollRecords(pctx, s.opt.MaxRecords)
		}
		cancel()
		if s.taken.Load() {
			return s.takenOver()
		}
	}
	s.c.log.Warn("kafka: the session has failed, nothing of its transaction is written; joining again", "group", s.opt.Group, "err", why)
	now := time.Now()
	for len(s.failed) > 0 && now.Sub(s.failed[0]) > failureWindow {
		s.failed = s.failed[1:]
	}
	if s.failed = append(s.failed, now); len(s.failed) >= maxFailures {
		return &SessionError{s.id, why}
	}
	s.kgo.Close()
	return s.open()
}

func (s *Session) takenOver() error {
	return fmt.Errorf("kafka: another process is instance %s of group %s now: each needs a name of its own, or none: %w", s.opt.Instance, s.opt.Group, ErrFenced)
}

// Positions returns the committed positions of this member's partitions. Partitions
// without one are left out.
func (s *Session) Positions() stream.Offsets {
	s.mu.Lock()
	k := s.kgo
	s.mu.Unlock()
	out := stream.Offsets{}
	for topic, ps := range k.Client().CommittedOffsets() {
		for id, at := range ps {
			if at.Offset >= 0 {
				out[stream.Partition{Topic: topic, ID: id}] = at.Offset
			}
		}
	}
	return out
}

// Lag implements stream.Lagger: records between the committed positions of this
// member's partitions and their ends, as far as the ends are known.
func (s *Session) Lag() map[stream.Partition]int64 {
	at := s.Positions()
	s.mu.Lock()
	defer s.mu.Unlock()
	lag := map[stream.Partition]int64{}
	for p, next := range at {
		if end, ok := s.ends[p]; ok {
			lag[p] = max(0, end-next)
		}
	}
	return lag
}

// Close ends the session. Others get the partitions at once, or after SessionTimeout if
// the member is static.
func (s *Session) Close() error {
	s.kgo.Close()
	s.c.close()
	return nil
}
