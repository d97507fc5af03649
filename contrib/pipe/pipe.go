// Package pipe learns and predicts for another program, such as the Python package, by
// answering its requests: streamsvm replay --pipe. Import it for its side effect.
package pipe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/trainer"
)

func init() { contrib.Pipe = run }

// pipe answers the requests of another program, for which it learns and predicts. Each
// request and each answer is a frame: its kind, the length of the payload as 32 bits,
// little-endian, and the payload. Records in payloads are lines of JSON, or MessagePack
// values.
type pipe struct {
	job func() (trainer.Job, error)
	learner
	version *predictor.Version // nil if it must be made from the learner first
	scorer  *predictor.Scorer
	batch   predictor.Batch
}

// maxFrame bounds the payload of a frame, in bytes.
const maxFrame = 1 << 30

// ReadFrame reads a frame. It returns io.EOF at the end of the input. It allocates memory
// only as bytes arrive.
func ReadFrame(in io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes, the limit is %d", n, maxFrame)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 1<<20)))
	if _, err = io.CopyN(&b, in, int64(n)); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return head[0], b.Bytes(), err
}

// writeFrame writes an answer, of kind 'a', or the error if it is not nil, of kind 'e'.
func writeFrame(out *bufio.Writer, payload []byte, err error) error {
	kind := byte('a')
	if err != nil {
		text := struct {
			Message string `json:"message"`
			Field   string `json:"field,omitempty"`
			Row     *int64 `json:"row,omitempty"` // from 0
		}{Message: err.Error()}
		if bad := (*stream.RecordError)(nil); errors.As(err, &bad) {
			text.Message, text.Field, text.Row = bad.Err.Error(), bad.Field, &bad.Offset
		}
		kind = 'e'
		if payload, err = json.Marshal(text); err != nil {
			return err
		}
	}
	_, _ = out.Write(binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(payload))))
	_, _ = out.Write(payload)
	return out.Flush()
}

// run answers requests until standard input or, between two of them, ctx ends.
func run(ctx context.Context, c *cli.Call, job func() (trainer.Job, error)) error {
	l, err := newLearner(job)
	if err != nil {
		return err
	}
	p := &pipe{job: job, learner: l}
	in, out := bufio.NewReaderSize(c.In, 64<<10), bufio.NewWriter(c.Out)
	for ctx.Err() == nil {
		kind, payload, err := ReadFrame(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return cli.Failf(cli.Data, "standard input: %w", err)
		}
		answer, err := p.answer(ctx, kind, payload)
		if err := writeFrame(out, answer, err); err != nil {
			return err
		}
	}
	return nil
}

// answer returns the payload of the answer to a request.
func (p *pipe) answer(ctx context.Context, kind byte, payload []byte) ([]byte, error) {
	switch kind {
	case 'l', 'f', 'r':
		p.version = nil
	}
	switch kind {
	case 'l': // learn from records; answers 1 if there is a model without a preview
		err := p.learn(ctx, payload)
		return p.live(), err
	case 'f': // finish the optimisation, as at the end of a stream
		return nil, p.finish(ctx)
	case 'c': // the state, in the form of a checkpoint
		return p.save(ctx)
	case 'r': // continue from a state
		err := p.resume(ctx, payload)
		return p.live(), err
	case 'd': // predict with this model from now on
		m, err := predictor.Decode(payload)
		if err != nil {
			return nil, err
		}
		return nil, p.use(m)
	case 's':
		return p.state(ctx)
	}
	if err := p.current(ctx); err != nil {
		return nil, err
	}
	switch kind {
	case 'm': // the model, in the form of a file
		return p.version.AppendBinary(nil)
	case 'p':
		return p.predict(ctx, payload)
	case 'x':
		return p.contributions(ctx, payload)
	}
	return nil, fmt.Errorf("there is no request %q", kind)
}

// records returns the records of a payload. Their offsets are their numbers in it.
func records(b []byte) (list []stream.Record, _ error) {
	var next codec.MsgpackSplitter
	for lines := len(b) > 0 && b[0] == '{'; len(b) > 0; {
		rec := stream.Record{Offset: int64(len(list))}
		if lines {
			if rec.Value, b, _ = bytes.Cut(b, []byte("\n")); len(rec.Value) == 0 {
				continue
			}
		} else if n, err := next.Next(b); err == nil {
			rec.Value, b = b[:n], b[n:]
		} else {
			return nil, stream.At(&rec, fmt.Errorf("it is neither JSON nor MessagePack: %w", err))
		}
		list = append(list, rec)
	}
	return list, nil
}

// A learner learns from the records of a pipe.
type learner struct {
	job trainer.Job
	// first holds the payloads until the form of the records is known. From then on
	// online is not nil.
	first  []byte
	online *trainer.Online
}

func newLearner(job func() (trainer.Job, error)) (l learner, err error) {
	if l.job, err = job(); err == nil && l.job.Discovery == nil {
		l.online, err = trainer.Start(l.job.Options, l.job.Decoder)
	}
	return l, err
}

func (l *learner) learn(ctx context.Context, payload []byte) error {
	list, err := records(payload)
	if err != nil {
		return err
	}
	if l.online != nil {
		return l.feed(ctx, list)
	}
	enough := false
	for i := range list {
		enough = enough || l.job.Discovery.Look(list[i].Value)
	}
	if l.first = append(l.first, payload...); len(payload) > 0 && payload[0] == '{' {
		l.first = append(l.first, '\n')
	}
	if !enough {
		return nil
	}
	return l.begin(ctx)
}

// begin decides on the form of the records, and learns from the records received so far.
func (l *learner) begin(ctx context.Context) error {
	o, err := l.job.Discovery.Decide()
	if err != nil {
		return err
	}
	if l.job.Decoder, err = l.job.Discovery.Codec(o); err != nil {
		return err
	}
	if l.online, err = trainer.Start(l.job.Options, l.job.Decoder); err != nil {
		return err
	}
	list, err := records(l.first)
	if l.first = nil; err != nil {
		return err
	}
	return l.feed(ctx, list)
}

// feed learns from records. If one of them cannot be decoded, it learns from none.
func (l *learner) feed(ctx context.Context, list []stream.Record) error {
	var arena stream.Arena
	examples := make([]stream.Example, len(list))
	for i := range list {
		if err := stream.DecodeRecord(ctx, l.job.Decoder, &arena, &list[i], &examples[i]); err != nil {
			return stream.At(&list[i], err)
		}
	}
	l.online.From.Topic = "stdin" // as for replay -
	n, err := l.online.Learn(ctx, examples)
	if bad := (*stream.RecordError)(nil); errors.As(err, &bad) {
		bad.Offset = int64(n)
	}
	return err
}

// live returns 1 if the warm-up has given a model.
func (l *learner) live() []byte {
	if l.online != nil && l.online.Counts().Learned > 0 && l.online.OneLabel() == nil {
		return []byte{1}
	}
	return []byte{0}
}

var errNothing = errors.New("nothing has been learned yet")

func (l *learner) finish(ctx context.Context) error {
	if l.online == nil {
		if len(l.first) == 0 {
			return errNothing
		}
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	return l.online.Finish(ctx)
}

// save returns a checkpoint, or the records while their form is unknown.
func (l *learner) save(ctx context.Context) ([]byte, error) {
	if l.online == nil {
		return l.first, nil
	}
	snap, err := l.online.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return snap.AppendBinary(nil)
}

// resume continues from the result of save.
func (l *learner) resume(ctx context.Context, data []byte) error {
	if !bytes.HasPrefix(data, []byte("\x89SSVM")) { // as checkpoints begin, and no record
		return l.learn(ctx, data)
	}
	snap, err := checkpoint.Decode("state", data)
	if err != nil {
		return err
	}
	if d := l.job.Discovery; d != nil {
		meta := map[string]string{}
		for _, kv := range snap.Header.Meta {
			meta[kv[0]] = kv[1]
		}
		if l.job.Decoder, err = d.Codec(d.Known(meta[engine.MetaLabels], meta[engine.MetaSchema])); err != nil {
			return err
		}
	}
	online, err := trainer.Resume(l.job.Options, l.job.Decoder, snap)
	if err == nil {
		l.online = online
	}
	return err
}

// current makes version the present model. Before the warm-up has given one, it is the
// model as if the stream ended here, from a copy of the state.
func (p *pipe) current(ctx context.Context) error {
	if p.version != nil {
		return nil
	}
	l := p.learner
	if l.live()[0] == 0 {
		state, err := l.save(ctx)
		if err != nil {
			return err
		}
		if l, err = newLearner(p.job); err != nil {
			return err
		}
		if err := l.resume(ctx, state); err != nil {
			return err
		}
		if err := l.finish(ctx); err != nil {
			return err
		}
	}
	m, err := l.online.Predictor()
	if err == nil && m == nil {
		err = errNothing
	}
	if err != nil {
		return err
	}
	return p.use(m)
}

// use makes m the version to predict with.
func (p *pipe) use(m *predictor.Predictor) (err error) {
	p.version = &predictor.Version{Predictor: m.Compile()}
	if p.scorer == nil {
		p.scorer, err = p.newScorer()
	}
	return err
}

func (p *pipe) newScorer() (*predictor.Scorer, error) {
	return predictor.NewScorer(func() *predictor.Version { return p.version }, predictor.ScorerOptions{
		Adapt: func(sig *codec.Signature) error {
			if sig.Codec = "msgpack"; sig.Schema != "" {
				sig.Codec = "json"
			}
			return nil
		},
	})
}

func (p *pipe) score(ctx context.Context, payload []byte, contributions int) ([]predictor.Prediction, error) {
	b := &p.batch
	var err error
	if b.Records, err = records(payload); err != nil {
		return nil, err
	}
	b.Contributions, b.JSON = contributions, len(payload) > 0 && payload[0] == '{'
	if err := p.scorer.ScoreBatch(ctx, b); err != nil {
		return nil, err
	}
	for i := range b.Predictions {
		if err := b.Predictions[i].Err; err != nil {
			return nil, stream.At(&b.Records[i], err)
		}
	}
	return b.Predictions, nil
}

// predict returns 64-bit numbers, little-endian: for each record the value of a
// regression, or of two classes decision and probability, or of more the scores and then
// the probabilities. Unknown probabilities are NaN.
func (p *pipe) predict(ctx context.Context, payload []byte) (out []byte, err error) {
	rows, err := p.score(ctx, payload, 0)
	add := func(values ...float64) {
		for _, v := range values {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
		}
	}
	k := p.version.Classes()
	unknown := slices.Repeat([]float64{math.NaN()}, k)
	for i := range rows {
		o := &rows[i]
		switch {
		case k == 0:
			add(o.Score)
		case k == 2:
			add(o.Score, o.Probability)
		case o.Probabilities == nil:
			add(o.Scores...)
			add(unknown...)
		default:
			add(o.Scores...)
			add(o.Probabilities...)
		}
	}
	return out, err
}

// contributions returns a line of JSON for each record, as predict --explain prints it,
// with all contributions.
func (p *pipe) contributions(ctx context.Context, payload []byte) (out []byte, err error) {
	rows, err := p.score(ctx, payload, math.MaxInt)
	for i := range rows {
		out = append(rows[i].AppendJSON(out, nil), '\n')
	}
	return out, err
}

// state returns JSON about the learner.
func (l *learner) state(ctx context.Context) ([]byte, error) {
	if l.online == nil {
		return []byte("{}"), nil
	}
	snap, err := l.online.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	measures := map[string]eval.Number{}
	for _, m := range l.online.Measures() {
		measures[m.Name] = eval.Number(m.Value)
	}
	return json.Marshal(map[string]any{"consumed": snap.Header.Examples, "measures": measures, "state_hash": describe.Hash(snap.Header.StateHash)})
}
