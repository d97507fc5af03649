package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// A request is one that asks for predictions, with the memory that it holds, to be
// used again.
type request struct {
	admit.Request
	*scoring // while it has one of the scorers
	w        http.ResponseWriter
	r        *http.Request
	pinned   *predictor.Scorer
	inJSON   bool // the rows are JSON, whatever the codec
	body     []byte
	values   [][]byte
	out      []byte
	infer    serve.Infer
	call     serve.Invocation
	model    serve.Model
	answer   []serve.Prediction

	free    chan *scoring // where the scorer goes back to
	will    int           // bytes that the request will hold at most, as far as is known
	kept    int           // bytes of memory of requests before, which are not counted
	n, good int           // rows so far, and those that could be scored
	first   error         // what is wrong with the first row
	sent    bool          // the answer has begun to go
}

var requests = sync.Pool{New: func() any { return new(request) }}

// scorers are the memory in which requests are decoded and scored, which is many
// times that of the rows. There are only so many of them: a request has one while
// it works, and gives it up after each batch of rows and while it sends. Small
// requests have scorers of their own, so that they need not wait for large ones.
type scorers struct {
	once         sync.Once
	small, large chan *scoring
}

// of returns the scorers for a body of so many bytes.
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

// kept returns b to be used again, or another one if its memory is more than most
// requests need.
func (b *scoring) kept() *scoring {
	if b.Large() {
		return newScoring()
	}
	b.Clear()
	b.s = nil
	return b
}

// size is how many bytes of memory the request holds that count, besides the body.
func (q *request) size() int {
	return q.memory() - q.kept
}

func (q *request) memory() int {
	return cap(q.out) + 24*cap(q.values) + q.infer.Size() + q.call.Size()
}

// end gives back all that the request holds. Its memory is used again if it is
// little.
func (q *request) end(p *predict) {
	q.rest()
	q.End()
	clear(q.answer)
	clear(q.values)
	q.infer.Clear()
	q.call.Clear()
	*q = request{body: q.body, values: q.values, out: q.out, infer: q.infer, call: q.call, answer: q.answer[:0]}
	if q.kept = cap(q.body) + q.memory(); q.kept <= admit.Free {
		requests.Put(q)
	}
}

// rest gives the scorer back.
func (q *request) rest() {
	if q.scoring != nil {
		q.free <- q.scoring.kept()
		q.scoring = nil
	}
}

// hold says what the request holds now.
func (q *request) hold() error { return q.Hold(max(q.will, cap(q.body)+q.size())) }

// reserve holds so many further bytes before the work begins. A request that had
// to wait for them later would have others wait for what it holds, and they it.
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

// work gets a scorer. The first time it does not wait long.
func (q *request) work(p *predict) error {
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
	return p.limits.Refused(http.StatusServiceUnavailable, "busy", "other requests are being scored: try again")
}

// failed answers that a request is refused because of a limit, or that its client
// has gone.
func (q *request) failed(err error, unread bool) {
	code := http.StatusBadRequest
	var limit *admit.Error
	if errors.As(err, &limit) {
		code = limit.Code
	}
	switch {
	case q.sent: // the connection has failed: the client does not take half an answer for a whole one
	case unread:
		refuseUnread(q.w, code, err)
	default:
		refuse(q.w, code, err)
	}
}

// begin reads a request, whose body will be copied if that is said, and has a scorer
// for it. Without a request it has answered.
func (p *predict) begin(w http.ResponseWriter, r *http.Request, copied bool) *request {
	if !p.ready.Load() {
		refuseUnread(w, http.StatusServiceUnavailable, errNotReady)
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		refuseUnread(w, http.StatusUnsupportedMediaType, fmt.Errorf("the request is compressed with %q: send it as it is", e))
		return nil
	}
	admitted, err := p.limits.Begin(w, r)
	if err != nil {
		refuseUnread(w, http.StatusServiceUnavailable, err)
		return nil
	}
	q := requests.Get().(*request)
	q.Request, q.w, q.r = admitted, w, r
	if q.body, err = q.ReadBody(q.body, p.maxBody, q.size()); err != nil {
		q.failed(err, true)
		q.end(p)
		return nil
	}
	switch {
	case copied:
		err = q.reserve(len(q.body))
	case len(q.body) > admit.Free:
		err = q.reserve(2 * flushAt) // of the answer
	}
	if err == nil {
		err = q.work(p)
	}
	if err != nil {
		q.failed(err, false)
		q.end(p)
		return nil
	}
	if q.pinned, err = p.pin(nil); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		q.end(p)
		return nil
	}
	return q
}

// score scores the rows of the request, and calls add after each batch. It reports
// whether all is well; if not, it has answered.
func (q *request) score(p *predict, batches iter.Seq[[][]byte], add func() error) bool {
	for rows := range batches {
		var err error
		if len(rows) == 1 && len(rows[0]) > flushAt { // which is decoded as a whole
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
		b.s, b.JSON, b.Records = q.pinned, q.inJSON, b.Records[:0]
		for _, row := range rows {
			b.Records = append(b.Records, stream.Record{Value: row})
		}
		p.score(q.r.Context(), b)
		for i := range b.Predictions {
			if err := b.Predictions[i].Err; err == nil {
				q.good++
			} else if q.n+i == 0 {
				q.first = err
			}
		}
		n := len(b.Predictions)
		err = add() // which may give the scorer back
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

// some is score, but answers if no row can be scored.
func (q *request) some(p *predict, batches iter.Seq[[][]byte], add func() error) bool {
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
	refuse(q.w, http.StatusBadRequest, err)
	return false
}

// flushAt is how many bytes of an answer are sent before it is complete.
const flushAt = 64 << 10

// flush sends what there is of the answer. Meanwhile others have the scorer.
func (q *request) flush(p *predict, contentType string) error {
	q.rest()
	if !q.sent {
		if err := q.hold(); err != nil {
			return err
		}
		q.sent = true // there will be no more than this at a time, and no way back
		q.w.Header().Set("Content-Type", contentType)
	}
	_, err := q.Write(q.out)
	q.out = q.out[:0]
	return err
}

// send sends what there is of the answer, and ends the request.
func (q *request) send(contentType string) {
	if !q.sent && cap(q.body)+q.memory() > admit.Free { // the request is not needed any more
		q.body, q.infer, q.call, q.kept = nil, serve.Infer{}, serve.Invocation{}, 0
		q.Shrink(q.size())
	}
	if !q.sent {
		q.w.Header().Set("Content-Type", contentType)
	}
	_, _ = q.Write(q.out)
}
