package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// A request asks for predictions. Later requests reuse its memory.
type request struct {
	admit.Request
	*scoring // nil while the request has none of the scorers
	w        http.ResponseWriter
	r        *http.Request
	pinned   *predictor.Scorer
	fields   predictor.FieldCheck
	explain  int  // contributions of each prediction
	inJSON   bool // rows are JSON, even if the codec is another
	body     []byte
	values   [][]byte
	out      []byte
	// tensors is the request in the form of contrib/oip, or nil.
	tensors interface {
		Clear()
		Size() int
	}

	free    chan *scoring // to which the scorer returns
	will    int           // bytes that have been reserved for the request
	kept    int           // bytes of memory left by earlier requests, not counted here
	n, good int           // rows so far, and how many of them could be scored
	first   error         // of the first row
	sent    bool          // part of the answer has been sent
}

// A scoring is a batch of rows. Its memory is reused.
type scoring struct {
	predictor.Batch
	s *predictor.Scorer // pinned to a version
}

func newScoring() *scoring { return new(scoring) }

var requests = sync.Pool{New: func() any { return new(request) }}

// scorers limits the memory in which requests are decoded and scored, which is many
// times the size of the rows. A request holds a scorer while it computes, and
// returns it after each batch of rows and while it sends. Small requests have a pool
// of their own, so that they don't wait for large ones.
type scorers struct {
	once         sync.Once
	small, large chan *scoring
}

// of returns the pool for a body of that many bytes.
func (s *scorers) of(body int) chan *scoring {
	s.once.Do(func() {
		fill := func(n int) chan *scoring {
			free := make(chan *scoring, n)
			for range n {
				free <- newScoring()
			}
			return free
		}
		n := runtime.GOMAXPROCS(0)
		s.small, s.large = fill(4*n), fill(n) // small ones may wait for a schema registry
	})
	if body <= admit.Free {
		return s.small
	}
	return s.large
}

// kept returns b for reuse, or a new one if b has grown beyond what most requests
// need.
func (b *scoring) kept() *scoring {
	if b.Large() {
		return newScoring()
	}
	b.Clear()
	b.s = nil
	return b
}

// size returns how many bytes the request holds besides its body, without those that
// earlier requests left behind.
func (q *request) size() int {
	return q.memory() - q.kept
}

func (q *request) memory() int {
	n := cap(q.out) + 24*cap(q.values)
	if q.tensors != nil {
		n += q.tensors.Size()
	}
	return n
}

// end releases everything that the request holds. A small one is kept for reuse.
func (q *request) end() {
	q.rest()
	q.End()
	clear(q.values)
	if q.tensors != nil {
		q.tensors.Clear()
	}
	*q = request{body: q.body, values: q.values, out: q.out, tensors: q.tensors}
	if q.kept = cap(q.body) + q.memory(); q.kept <= admit.Free {
		requests.Put(q)
	}
}

// rest returns the scorer to its pool.
func (q *request) rest() {
	if q.scoring != nil {
		q.free <- q.scoring.kept()
		q.scoring = nil
	}
}

// hold updates the count of bytes that the request holds.
func (q *request) hold() error { return q.Hold(max(q.will, cap(q.body)+q.size())) }

// reserve claims bytes before the work begins. Requests that claimed more later,
// while holding what they have, could wait for each other forever.
func (q *request) reserve(more int) error {
	if more += cap(q.body) + q.size(); more <= q.will {
		return nil
	}
	q.will = more
	if more > admit.Free {
		q.rest() // while it may wait
	}
	return q.hold()
}

// work takes a scorer from the pool. Before the first batch it waits a second at
// most.
func (q *request) work(p *service) error {
	if q.free == nil {
		q.free = p.scorers.of(len(q.body))
	}
	select {
	case q.scoring = <-q.free:
		return nil
	default:
	}
	ctx, cancel := q.r.Context(), context.CancelFunc(func() {})
	if q.n == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Second)
	}
	defer cancel()
	select {
	case q.scoring = <-q.free:
		return nil
	case <-ctx.Done():
	}
	if err := q.r.Context().Err(); err != nil {
		return err
	}
	return p.Limits.Refused(http.StatusServiceUnavailable, "busy", "other requests are being scored: try again")
}

// failed answers a request that exceeds a limit, or whose client has gone.
func (q *request) failed(err error, unread bool) {
	code := http.StatusBadRequest
	if limit, ok := errors.AsType[*admit.Error](err); ok {
		code = limit.Code
	}
	switch {
	case q.sent: // the connection is broken, so the client sees that the answer is incomplete
	case unread:
		serve.RefuseUnread(q.w, code, err)
	default:
		serve.Refuse(q.w, code, err)
	}
}

// begin reads a request and takes a scorer for it. copied says that the body will be
// parsed into a copy, for which it reserves memory. If it returns nil it has answered.
func (p *service) begin(w http.ResponseWriter, r *http.Request, copied bool) *request {
	if !p.Ready.Load() {
		serve.RefuseUnread(w, http.StatusServiceUnavailable, serve.ErrNotReady)
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		serve.RefuseUnread(w, http.StatusUnsupportedMediaType, fmt.Errorf("the request is compressed with %q: send it as it is", e))
		return nil
	}
	fields, err := fieldCheck(r.URL.Query())
	most := "0"
	if r.URL.Query().Has("explain") { // a bare one asks for all
		most = strconv.Itoa(math.MaxInt32)
	}
	explain, bad := strconv.Atoi(cmp.Or(r.URL.Query().Get("explain"), most))
	if err == nil && (bad != nil || explain < 0) {
		err = fmt.Errorf("explain is %q, want a number from 0 on", r.URL.Query().Get("explain"))
	}
	if err != nil {
		serve.RefuseUnread(w, http.StatusBadRequest, err)
		return nil
	}
	admitted, err := p.Limits.Begin(w, r)
	if err != nil {
		serve.RefuseUnread(w, http.StatusServiceUnavailable, err)
		return nil
	}
	q := requests.Get().(*request)
	p.Requests.Add(1)
	q.Request, q.w, q.r, q.fields, q.explain = admitted, w, r, fields, explain
	if q.body, err = q.ReadBody(q.body, p.MaxBody, q.size()); err != nil {
		q.failed(err, true)
		q.end()
		return nil
	}
	switch {
	case copied:
		err = q.reserve(len(q.body))
	case len(q.body) > admit.Free:
		err = q.reserve(2 * flushAt) // for the answer
	}
	if err == nil {
		err = q.work(p)
	}
	if err != nil {
		q.failed(err, false)
		q.end()
		return nil
	}
	if q.pinned, err = p.Pin(); err != nil {
		serve.Refuse(w, http.StatusInternalServerError, err)
		q.end()
		return nil
	}
	return q
}

// fieldCheck returns the policy for unknown and missing fields: the parameter strict
// refuses them.
func fieldCheck(q url.Values) (predictor.FieldCheck, error) {
	strict := q.Has("strict")
	if v := q.Get("strict"); v != "" {
		var err error
		if strict, err = strconv.ParseBool(v); err != nil {
			return 0, fmt.Errorf("strict is %q, want 1 or 0", v)
		}
	}
	if strict {
		return predictor.RefuseFields, nil
	}
	return predictor.ReportFields, nil
}

// score scores the rows of the request and calls add after each batch. If it returns
// false it has answered.
func (q *request) score(p *service, batches iter.Seq[[][]byte], add func() error) bool {
	for rows := range batches {
		var err error
		if len(rows) == 1 && len(rows[0]) > flushAt { // decoded as a whole
			err = q.reserve(len(rows[0]))
		}
		if err == nil && q.scoring == nil {
			err = q.work(p)
		}
		if err != nil {
			q.failed(err, false)
			return false
		}
		b := q.scoring
		b.Fields = q.fields
		b.s, b.JSON, b.Records = q.pinned, q.inJSON, b.Records[:0]
		for _, row := range rows {
			b.Records = append(b.Records, stream.Record{Value: row})
		}
		p.Score(q.r.Context(), b.s, &b.Batch, q.explain)
		for i := range b.Predictions {
			if err := b.Predictions[i].Err; err == nil {
				q.good++
			} else if q.n+i == 0 {
				q.first = err
			}
		}
		n := len(b.Predictions)
		err = add() // may return the scorer
		q.n += n
		q.rest()
		if err == nil && !q.sent {
			err = q.hold()
		}
		if err != nil {
			q.failed(err, false)
			return false
		}
	}
	q.rest()
	return true
}

// some is like score, but refuses a request if none of its rows can be scored.
func (q *request) some(p *service, batches iter.Seq[[][]byte], add func() error) bool {
	if !q.score(p, batches, add) {
		return false
	}
	if q.n == 0 || q.good > 0 {
		return true
	}
	err := fmt.Errorf("example 1: %w", q.first)
	if q.n > 1 {
		err = fmt.Errorf("none of %d examples can be scored; %w", q.n, err)
	}
	serve.Refuse(q.w, http.StatusBadRequest, err)
	return false
}

// flushAt is the size from which a part of an answer is sent, in bytes.
const flushAt = 64 << 10

// flush sends the part of the answer that is ready. Others may use the scorer
// meanwhile.
func (q *request) flush(contentType string) error {
	q.rest()
	if !q.sent {
		if err := q.hold(); err != nil {
			return err
		}
		q.sent = true
		q.w.Header().Set("Content-Type", contentType)
	}
	_, err := q.Write(q.out)
	q.out = q.out[:0]
	return err
}

// send sends the rest of the answer.
func (q *request) send(contentType string) {
	if !q.sent && cap(q.body)+q.memory() > admit.Free { // the request is no longer needed
		q.body, q.tensors, q.kept = nil, nil, 0
		q.Shrink(q.size())
	}
	if !q.sent {
		q.w.Header().Set("Content-Type", contentType)
	}
	_, _ = q.Write(q.out)
}
