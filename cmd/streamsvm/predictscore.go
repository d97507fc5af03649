package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// A scoring is a batch of records on its way through the command. Its memory is
// reused.
type scoring struct {
	predictor.Batch
	s    *predictor.Scorer // pinned to a version
	out  []byte            // lines for standard output
	done chan struct{}     // gets an element when the batch is scored
}

// doing says what is being done with the batch, for crash reports.
func (b *scoring) doing() string {
	at := func(i int) string {
		r := &b.Records[i]
		return fmt.Sprintf("%v offset %d", stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset)
	}
	switch i, n := b.Decoding(), len(b.Records); {
	case n == 0:
		return "waiting for records to score"
	case i >= 0:
		return "decoding " + at(i)
	default:
		return "scoring " + at(0) + " to " + at(n-1)
	}
}

func newScoring() *scoring { return &scoring{done: make(chan struct{}, 1)} }

// fileScorer is a Scorer for records under a csv header; nil is no header.
type fileScorer struct {
	*predictor.Scorer
	header *csvHeader
}

// pin returns a Scorer that is pinned to the current version, for records under the
// header h if that is not nil.
func (p *predict) pin(h *csvHeader) (*predictor.Scorer, error) {
	last := p.last.Load()
	if last == nil || last.header != h {
		s, err := p.codecFlags.scorer(p.c, p.current, predictor.ScorerOptions{Threshold: p.threshold}, h, p.c.Args...)
		if err != nil {
			return nil, err
		}
		last = &fileScorer{s, h}
		p.last.Store(last)
	}
	s, err := last.Pin()
	return s, badRecords(p.c, h, err)
}

// codec returns the codec of the records, or nil before there is a model.
func (p *predict) codec() codec.Codec {
	if last := p.last.Load(); last != nil {
		return last.Codec()
	}
	return nil
}

// score predicts the batch.
func (p *predict) score(ctx context.Context, b *scoring) { p.scoreBatch(ctx, b.s, &b.Batch, 0) }

// scoreBatch predicts the batch with a pinned Scorer. explain is the number of
// contributions that a request asks for, if not 0.
func (p *predict) scoreBatch(ctx context.Context, s *predictor.Scorer, b *predictor.Batch, explain int) {
	start := time.Now()
	b.Contributions = cmp.Or(explain, p.explain)
	_ = s.ScoreBatch(ctx, b) // cannot fail: the Scorer is pinned
	scored := len(b.Predictions)
	for i := range b.Predictions {
		if b.Predictions[i].Err != nil {
			scored--
		}
	}
	p.counts.predictions.Add(uint64(scored))
	p.counts.refused.Add(uint64(len(b.Records) - scored))
	p.m.Scored(scored, len(b.Records)-scored, time.Since(start))
	p.page.Scored(scored, len(b.Records)-scored)
}

// predictedValue and trueValue return the pair that is compared: score and label, or
// two class numbers.
func predictedValue(o *predictor.Prediction) float64 {
	if o.Scores != nil {
		return o.Value
	}
	return o.Score
}

func trueValue(o *predictor.Prediction) float64 {
	if o.Class != "" {
		return float64(len(o.Scores)) // a class that the model does not know
	}
	return o.Y
}

// count updates the measures, the counts and the progress with predictions.
func (p *predict) count(rows []predictor.Prediction) {
	p.page.Compare(func() { p.add(rows) })
	p.prog.records.Add(uint64(len(rows)))
	p.prog.version.Store(p.current().Update.Version)
	facts := []any{}
	if p.refused > 0 {
		facts = append(facts, "refused", p.refused)
	}
	if p.quality.Examples() > 0 && p.current().Task() == algos.Classify {
		_, recent := p.quality.Accuracy()
		facts = append(facts, "accuracy", eval.Number(recent))
	}
	p.prog.shows("", facts...)
}

func (p *predict) add(rows []predictor.Prediction) {
	for i := range rows {
		switch o := &rows[i]; {
		case o.Err != nil:
			p.refused++
		case o.Labelled:
			p.quality.Add(predictedValue(o), trueValue(o))
			if o.Value == o.Y {
				p.right++
			}
			if q := o.Probability; !math.IsNaN(q) {
				p.quality.AddProbability(q, o.Y > 0)
			}
		}
	}
}

// files scores files, or standard input: one goroutine reads, one for each
// processor decodes and decides, and this one writes, in the order of the
// records.
func (p *predict) files(ctx context.Context) error {
	s, err := p.pin(nil)
	if err != nil {
		return err
	}
	p.prog.shows("")
	files, fo := p.c.Args, p.fileOptions()
	if len(files) == 0 {
		files = []string{"-"}
	}
	scoredFiles(s, &fo, files[0], func(h *csvHeader) error {
		p.header = h
		_, err := p.pin(h)
		return err
	})
	src, err := fileio.Open(files, fo)
	if err != nil {
		return cli.Fail(cli.Usage, err)
	}
	defer src.Close()
	defer warnTorn(p.c, src)
	n := runtime.GOMAXPROCS(0)
	work, order, spare := make(chan *scoring, n), make(chan *scoring, 2*n), make(chan *scoring, 2*n+2)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	crash.Go(func() {
		ended <- p.read(ctx, src, waits(files), work, order, spare)
		close(work)
		close(order)
	})
	for range n {
		crash.Go(func() {
			var b *scoring
			defer crash.Recover(func() string { return b.doing() })
			for b = range work {
				p.score(ctx, b)
				p.format(b)
				b.done <- struct{}{}
			}
		})
	}
	for b := range order {
		<-b.done
		if err == nil {
			p.count(b.Predictions)
			if err = p.print(b); err != nil {
				cancel()
			}
		}
		select {
		case spare <- b:
		default:
		}
	}
	cancel()
	if err != nil {
		return err
	}
	return <-ended
}

const (
	batchRecords = 512
	batchBytes   = 512 << 10
)

// read hands on the records of src in batches. From a source that never waits for
// data, batches have a size that suits the predictor.
func (p *predict) read(ctx context.Context, src stream.Source, waits bool, work, order chan<- *scoring, spare <-chan *scoring) error {
	var rest []stream.Record // of the next file, which may have other columns
	for {
		var b *scoring
		select {
		case b = <-spare:
		default:
			b = newScoring()
		}
		b.Records = append(b.Records[:0], rest...)
		rest = nil
		h := p.header
		var err error
		for size := 0; err == nil && len(b.Records) < batchRecords && size < batchBytes && !(waits && len(b.Records) > 0); {
			had := len(b.Records)
			b.Records, err = src.Fetch(ctx, b.Records)
			b.Records = b.Records[:had+len(p.withValues(b.Records[had:]))]
			if h != p.header && had > 0 {
				b.Records, rest = b.Records[:had], slices.Clone(b.Records[had:])
				break
			}
			h = p.header
			for i := range b.Records[had:] {
				size += len(b.Records[had+i].Value)
			}
		}
		if len(b.Records) > 0 {
			var bad error
			if b.s, bad = p.pin(h); bad != nil {
				return bad
			}
			select {
			case order <- b:
				work <- b // taken by a goroutine that waits for nobody
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// waits reports whether reading one of the files may wait for other programs.
func waits(files []string) bool {
	return slices.ContainsFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		return name == "-" || err == nil && !info.Mode().IsRegular()
	})
}

// format makes the batch's lines of standard output.
func (p *predict) format(b *scoring) {
	b.out = b.out[:0]
	for i := range b.Predictions {
		o := &b.Predictions[i]
		switch {
		case p.output == "json":
			b.out = o.AppendJSON(b.out, nil)
		case o.Err != nil:
			b.out = append(b.out, '?')
		case p.output == "label":
			b.out = o.AppendText(b.out)
		case p.output == "probability" && math.IsNaN(o.Probability):
			b.out = append(b.out, '?')
		case p.output == "probability":
			b.out = strconv.AppendFloat(b.out, o.Probability, 'g', -1, 64)
		default:
			b.out = strconv.AppendFloat(b.out, o.Score, 'g', -1, 64)
		}
		b.out = append(b.out, '\n')
	}
}

// print writes the batch's lines to standard output, and the errors of its records to
// standard error.
func (p *predict) print(b *scoring) error {
	for i := range b.Predictions {
		if err := b.Predictions[i].Err; err != nil {
			fmt.Fprintf(p.c.Err, "streamsvm: %s record %d: %s\n", b.Records[i].Topic, b.Records[i].Offset+1, err)
		}
	}
	_, err := p.c.Out.Write(b.out)
	return err
}
