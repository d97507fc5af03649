package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// outcome is what became of one record.
type outcome struct {
	id              string
	y               float64   // the true label
	class           string    // what it is called, of a class that the model does not know
	labelled        bool      // it came along
	scores          []float64 // of more than two classes
	probabilities   []float64 // of these; nil where they are not known
	decision, label float64
	probability     float64 // NaN where it is not known
	err             error   // why there are none
	// contributions are those of the largest magnitude, nil where they are not
	// wanted or not known, constant is the constant term.
	contributions []predictor.Contribution
	constant      float64
}

// A scoring is a batch of records on its way through the command, with all the
// memory that this takes, to be used again.
type scoring struct {
	v    *predictor.Version
	form *form // of the records, for v
	recs []stream.Record
	rows []outcome

	arena stream.Arena
	ex    stream.Example
	xs    []stream.Vec
	at    []int // the record of each of xs
	f     []float64
	score []float64     // of more than two classes
	out   []byte        // lines for standard output
	done  chan struct{} // gets an element when the batch is scored
	hand  int           // the record that is being decoded; -1 without
}

// doing says what is being done with the batch, for the report of a panic.
func (b *scoring) doing() string {
	at := func(i int) string {
		r := &b.recs[i]
		return fmt.Sprintf("%v offset %d", stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset)
	}
	switch n := len(b.recs); {
	case n == 0:
		return "waiting for records to score"
	case b.hand >= 0 && b.hand < n:
		return "decoding " + at(b.hand)
	default:
		return "scoring " + at(0) + " to " + at(n-1)
	}
}

// errNoProbability is why there is no label under a threshold.
var errNoProbability = errors.New("the model has no probabilities, which --threshold needs: fewer than 200 predictions had been compared with their labels, or an older version made it")

func newScoring() *scoring { return &scoring{done: make(chan struct{}, 1), hand: -1} }

// modelForm is the form of records for a model.
type modelForm struct {
	model  *predictor.Predictor
	header *csvHeader
	*form
}

// form returns the form of records for v, with the columns of h if that is not
// nil. Each model says anew what it was made for.
func (p *predict) form(v *predictor.Version, h *csvHeader) (*form, error) {
	if last := p.forms.Load(); last != nil && last.model == v.Predictor && last.header == h {
		return last.form, nil
	}
	f, err := p.codecFlags.form(p.c, v.Predictor, h, p.c.Args...)
	if err != nil {
		return nil, err
	}
	// What has been noticed in the fields of events is kept from version to
	// version.
	if last := p.forms.Load(); last != nil && f.sig.Schema != "" && last.header == h && reflect.DeepEqual(codec.SignatureOf(last.dec), codec.SignatureOf(f.dec)) {
		f.dec = last.dec
	}
	if p.explain > 0 {
		f.explain, f.features = p.explain, f.sig.Features()
		if f.sig.Schema != "" {
			if f.features, err = codec.SchemaFeatures(f.sig.Schema); err != nil {
				return nil, err
			}
		}
	}
	f.rowForm = sync.OnceValues(func() (*rowForm, error) { return newRowForm(f) })
	p.forms.Store(&modelForm{v.Predictor, h, f})
	return f, nil
}

// score predicts the batch.
func (p *predict) score(ctx context.Context, b *scoring) {
	start := time.Now()
	b.arena.Reset()
	b.rows, b.xs, b.at = b.rows[:0], b.xs[:0], b.at[:0]
	for i := range b.recs {
		b.hand = i
		ex := &b.ex
		*ex = stream.Example{}
		if err := b.form.decode(ctx, &b.arena, &b.recs[i], ex); err != nil {
			b.rows = append(b.rows, outcome{id: ex.ID, err: err})
			continue
		}
		b.rows = append(b.rows, outcome{id: ex.ID, y: ex.Y, class: ex.Class, labelled: ex.Labelled})
		b.xs, b.at = append(b.xs, ex.X), append(b.at, i)
	}
	b.hand = -1
	if cap(b.f) < len(b.xs) {
		b.f = make([]float64, len(b.xs), 2*len(b.xs))
	}
	b.f = b.f[:len(b.xs)]
	scored := len(b.xs)
	if n := b.v.Classes(); n > 2 {
		b.score = slices.Grow(b.score[:0], n*len(b.xs))[:n*len(b.xs)]
		b.v.Scores(b.score, b.xs)
		for k, i := range b.at {
			scores := b.score[k*n : (k+1)*n]
			best := algos.Largest(scores)
			b.rows[i].scores, b.rows[i].label, b.rows[i].decision = scores, float64(best), scores[best]
			b.rows[i].probability, b.rows[i].probabilities = math.NaN(), nil
			if p := slices.Clone(scores); b.v.Probabilities(p, scores) {
				b.rows[i].probabilities = p
			}
		}
	} else {
		b.v.Decisions(b.f, b.xs)
		for k, i := range b.at {
			o := &b.rows[i]
			o.decision, o.label = b.f[k], b.v.Label(b.f[k])
			if p.explain > 0 {
				if list, constant, ok := b.v.Contributions(b.xs[k]); ok {
					o.contributions, o.constant = append([]predictor.Contribution{}, list[:min(len(list), p.explain)]...), constant
				}
			}
			known := false
			if o.probability, known = b.v.Probability(o.decision); p.threshold > 0 && !known {
				o.err = errNoProbability
				scored--
			} else if p.threshold > 0 {
				o.label = -1
				if o.probability >= p.threshold {
					o.label = 1
				}
			}
		}
	}
	p.counts.predictions.Add(uint64(scored))
	p.counts.refused.Add(uint64(len(b.recs) - scored))
	p.m.Scored(scored, len(b.recs)-scored, time.Since(start))
	p.page.Scored(scored, len(b.recs)-scored)
}

// said and truth are what is compared: decision and label, or numbers of classes.
func (o *outcome) said() float64 {
	if o.scores != nil {
		return o.label
	}
	return o.decision
}

func (o *outcome) truth() float64 {
	if o.class != "" {
		return float64(len(o.scores)) // none of those that the model knows
	}
	return o.y
}

// count keeps what summary needs.
func (p *predict) count(rows []outcome) {
	p.page.Compare(func() { p.add(rows) })
}

func (p *predict) add(rows []outcome) {
	for i := range rows {
		switch {
		case rows[i].err != nil:
			p.refused++
		case rows[i].labelled:
			p.quality.Add(rows[i].said(), rows[i].truth())
			if rows[i].label == rows[i].y {
				p.right++
			}
			if q := rows[i].probability; !math.IsNaN(q) {
				p.quality.AddProbability(q, rows[i].y > 0)
			}
		}
	}
}

// files scores files, or standard input: one goroutine reads, one for each
// processor decodes and decides, and this one writes, in the order of the
// records.
func (p *predict) files(ctx context.Context) error {
	f, err := p.form(p.current(), nil)
	if err != nil {
		return err
	}
	files, fo := p.c.Args, p.fileOptions()
	if len(files) == 0 {
		files = []string{"-"}
	}
	f.files(&fo, files[0], func(h *csvHeader) error {
		p.header = h
		_, err := p.form(p.current(), h)
		return err
	})
	src, err := fileio.Open(files, fo)
	if err != nil {
		return cli.Fail(cli.Usage, err)
	}
	defer src.Close()
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
			p.count(b.rows)
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

// read hands the records of src on. From a source that never waits for data it
// makes batches of a size that is good for the predictor.
func (p *predict) read(ctx context.Context, src stream.Source, waits bool, work, order chan<- *scoring, spare <-chan *scoring) error {
	var rest []stream.Record // of the next file, whose columns may be others
	for {
		var b *scoring
		select {
		case b = <-spare:
		default:
			b = newScoring()
		}
		b.recs, b.v = append(b.recs[:0], rest...), p.current()
		rest = nil
		h := p.header
		var err error
		for size := 0; err == nil && len(b.recs) < batchRecords && size < batchBytes && !(waits && len(b.recs) > 0); {
			had := len(b.recs)
			b.recs, err = src.Fetch(ctx, b.recs)
			b.recs = b.recs[:had+len(p.withValues(b.recs[had:]))]
			if h != p.header && had > 0 {
				b.recs, rest = b.recs[:had], slices.Clone(b.recs[had:])
				break
			}
			h = p.header
			for i := range b.recs[had:] {
				size += len(b.recs[had+i].Value)
			}
		}
		if len(b.recs) > 0 {
			f, ferr := p.form(b.v, h)
			if ferr != nil {
				return ferr
			}
			b.form = f
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
	for _, name := range files {
		if info, err := os.Stat(name); name == "-" || err == nil && !info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// format makes the batch's lines of standard output.
func (p *predict) format(b *scoring) {
	b.out = b.out[:0]
	for i := range b.rows {
		o := &b.rows[i]
		switch {
		case p.output == "json":
			b.out = o.append(b.out, b.form, b.v, nil)
		case o.err != nil:
			b.out = append(b.out, '?')
		case p.output == "label" && b.form.texts != nil:
			b.out = append(b.out, b.form.texts[b.form.index(o.label)]...)
		case p.output == "label":
			b.out = strconv.AppendFloat(b.out, o.label, 'g', -1, 64)
		case p.output == "probability" && math.IsNaN(o.probability):
			b.out = append(b.out, '?')
		case p.output == "probability":
			b.out = strconv.AppendFloat(b.out, o.probability, 'g', -1, 64)
		default:
			b.out = strconv.AppendFloat(b.out, o.decision, 'g', -1, 64)
		}
		b.out = append(b.out, '\n')
	}
}

// print writes the batch's lines to standard output, and to the standard error
// output what is wrong with records.
func (p *predict) print(b *scoring) error {
	for i := range b.rows {
		if err := b.rows[i].err; err != nil {
			fmt.Fprintf(p.c.Err, "streamsvm: %s record %d: %s\n", b.recs[i].Topic, b.recs[i].Offset+1, err)
		}
	}
	_, err := p.c.Out.Write(b.out)
	return err
}

// append appends o as a JSON object, with the position of r if it is not nil.
func (o *outcome) append(b []byte, f *form, v *predictor.Version, r *stream.Record) []byte {
	b = append(b, '{')
	text := func(key, s string) {
		if s != "" {
			b = serve.AppendString(appendKey(b, key), s)
		}
	}
	text("id", o.id)
	if r != nil {
		text("topic", r.Topic)
		b = strconv.AppendInt(appendKey(b, "partition"), int64(r.Partition), 10)
		b = strconv.AppendInt(appendKey(b, "offset"), r.Offset, 10)
	}
	if o.err == nil {
		b = o.appendPrediction(b, f)
		if o.labelled && o.class != "" {
			b = serve.AppendString(appendKey(b, "y"), o.class)
		} else if o.labelled {
			b = f.appendLabel(appendKey(b, "y"), o.y)
		}
	}
	text("model", v.Update.Model)
	if v.Update.Version != 0 {
		b = strconv.AppendUint(appendKey(b, "version"), v.Update.Version, 10)
	}
	if o.err != nil {
		text("error", o.err.Error())
	}
	return append(b, '}')
}

// appendPrediction appends the fields of a prediction to an object.
func (o *outcome) appendPrediction(b []byte, f *form) []byte {
	b = serve.AppendNumber(appendKey(b, "decision"), o.decision)
	if len(f.labels) == 2 {
		b = serve.AppendNumber(appendKey(b, "probability"), o.probability)
	}
	b = f.appendLabel(appendKey(b, "label"), o.label)
	if o.scores != nil {
		b = f.appendScores(appendKey(b, "scores"), o.scores)
		b = f.appendProbabilities(appendKey(b, "probabilities"), o.probabilities)
	}
	if f.explain > 0 {
		b = o.appendContributions(appendKey(b, "contributions"), f)
	}
	return b
}

// appendContributions appends an array of what features have added, and the
// constant term as a field; null where they are not known.
func (o *outcome) appendContributions(b []byte, f *form) []byte {
	if o.contributions == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, c := range o.contributions {
		if i > 0 {
			b = append(b, ',')
		}
		name := "feature " + strconv.Itoa(c.Feature+1)
		if c.Feature < len(f.features) {
			name = f.features[c.Feature]
		}
		b = serve.AppendString(append(b, `{"feature":`...), name)
		b = append(serve.AppendNumber(append(b, `,"value":`...), c.Value), '}')
	}
	b = append(b, ']')
	return serve.AppendNumber(appendKey(b, "constant"), o.constant)
}

// explainable returns why contributions are not known of the model in use.
func (p *predict) explainable() error {
	if v := p.current(); p.explain > 0 {
		if _, _, ok := v.Contributions(stream.Vec{}); !ok {
			return p.c.Bad("explain", fmt.Errorf("contributions are known of linear models of two classes or of a regression, whose features are not hashed; this is a model of %s: %s", v.Learner(), v.Info().Text))
		}
	}
	return nil
}

// appendScores appends the scores of classes by their names, as an object.
func (f *form) appendScores(b []byte, scores []float64) []byte {
	b = append(b, '{')
	for k, v := range scores {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(serve.AppendString(b, f.texts[k]), ':')
		b = serve.AppendNumber(b, v)
	}
	return append(b, '}')
}

// appendProbabilities is appendScores for probabilities, null where they are not
// known.
func (f *form) appendProbabilities(b []byte, p []float64) []byte {
	if p == nil {
		return append(b, "null"...)
	}
	return f.appendScores(b, p)
}

func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}
