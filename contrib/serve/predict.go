// Package serve answers requests for predictions over HTTP: POST /predict, the Open
// Inference Protocol, and an OpenAPI document of both. Import it for its side effect.
package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/jsonenc"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// defaultMaxRows is the largest number of examples in a request.
const defaultMaxRows = 100_000

// unreadable responds that a request cannot be read.
func unreadable(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	if errors.Is(err, serve.ErrTooMany) {
		code = http.StatusRequestEntityTooLarge
	}
	serve.Refuse(w, code, err)
}

func init() { contrib.Serve = routes }

// A service answers requests.
type service struct {
	*contrib.Predictions
	scorers scorers // for the requests
}

// routes returns the routes that predict adds to the routes of every server.
// contrib/oip/openapi.json describes them.
func routes(of *contrib.Predictions) map[string]http.HandlerFunc {
	p := &service{Predictions: of}
	list := p.inference()
	list["POST /predict"] = p.predict
	return list
}

func (p *service) mostRows() int { return cmp.Or(p.MaxRows, defaultMaxRows) }

// maxExplained is the largest number of examples to explain in a request.
const maxExplained = 100

// predict answers POST /predict. The body is one example in the codec of the
// command line, a JSON array of examples, or lines of text. An example that cannot
// be scored has an error in its place, and the request fails only if none can. JSON
// lines are answered line by line, as on standard output.
func (p *service) predict(w http.ResponseWriter, r *http.Request) {
	q := p.begin(w, r, false)
	if q == nil {
		return
	}
	defer q.end()
	lines := jsonLines(r.Header.Get("Content-Type"))
	var values iter.Seq[[]byte]
	var err error
	if lines {
		q.inJSON = true
		values = jsonTexts(q.body)
	} else {
		values, err = q.split(q.body)
	}
	if err == nil {
		err = q.tooMany(p, values)
	}
	if err != nil {
		unreadable(w, err)
		return
	}
	q.out = q.out[:0]
	if lines {
		const contentType = "application/x-ndjson"
		if q.score(p, serve.Batches(values, &q.values), func() error {
			for i := range q.Predictions {
				q.out = append(q.Predictions[i].AppendJSON(q.out, nil), '\n')
			}
			if len(q.out) < flushAt {
				return nil
			}
			return q.flush(contentType)
		}) {
			q.send(contentType)
		}
		return
	}
	q.out = appendHead(q.out, q.pinned.Current())
	if q.some(p, serve.Batches(values, &q.values), func() error {
		q.out = appendRows(q.out, q.Predictions, q.n)
		if q.good == 0 || len(q.out) < flushAt {
			return nil
		}
		return q.flush("application/json")
	}) {
		q.out = append(q.out, "]}\n"...)
		q.send("application/json")
	}
}

// tooMany returns an error if the body has more rows than allowed.
func (q *request) tooMany(p *service, values iter.Seq[[]byte]) error {
	most := p.mostRows()
	if q.explain > 0 {
		most = min(most, maxExplained)
	}
	if len(q.body)/2 < most { // a row has two bytes, one of them between rows
		return nil
	}
	n := 0
	for range values {
		n++
	}
	if n > most {
		return fmt.Errorf("%w: %d, the limit is %d", serve.ErrTooMany, n, most)
	}
	return nil
}

// jsonTexts are the lines of the body that are not empty.
func jsonTexts(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

// jsonLines reports whether a content type says that each line is a JSON text.
func jsonLines(contentType string) bool {
	return strings.HasPrefix(contentType, "application/x-ndjson") || strings.HasPrefix(contentType, "application/jsonl") || strings.HasPrefix(contentType, "application/ndjson")
}

// appendHead appends the beginning of an answer to POST /predict.
func appendHead(b []byte, v *predictor.Version) []byte {
	b = append(b, '{')
	if name := v.Update.Model; name != "" {
		b = jsonenc.AppendString(jsonenc.AppendKey(b, "model"), name)
	}
	if n := v.Update.Version; n != 0 {
		b = strconv.AppendUint(jsonenc.AppendKey(b, "version"), n, 10)
	}
	return append(jsonenc.AppendKey(b, "predictions"), '[')
}

// appendRows appends a prediction for each example of a batch, or the example's
// index in the request and the reason why there is none. first is the index of the
// first example of the batch.
func appendRows(b []byte, rows []predictor.Prediction, first int) []byte {
	for i := range rows {
		if first+i > 0 {
			b = append(b, ',')
		}
		o := &rows[i]
		b = append(b, '{')
		if o.ID != "" {
			b = jsonenc.AppendString(jsonenc.AppendKey(b, "id"), o.ID)
		}
		if o.Err != nil {
			b = strconv.AppendInt(jsonenc.AppendKey(b, "index"), int64(first+i), 10)
			b = jsonenc.AppendString(jsonenc.AppendKey(b, "error"), o.Err.Error())
		} else {
			b = o.AppendFields(b)
		}
		b = append(b, '}')
	}
	return b
}

// split splits a request into examples. The first line of CSV may be a header, if
// the columns of the model have names; it then applies to this request.
func (q *request) split(body []byte) (iter.Seq[[]byte], error) {
	one := func(yield func([]byte) bool) { yield(body) }
	name := q.pinned.Codec().Name()
	if name == "msgpack" || codec.Schematic(name) && (len(body) == 0 || body[0] != '{' && body[0] != '[') {
		return one, nil
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil, errors.New("the request is empty")
	}
	if q.pinned.TakesJSON() && (body[0] == '{' || body[0] == '[') {
		name = "json"
	}
	if name == "json" {
		if body[0] != '[' {
			return one, nil
		}
		if !json.Valid(body) {
			var all json.RawMessage
			return nil, json.Unmarshal(body, &all)
		}
		return func(yield func([]byte) bool) {
			_ = serve.Items(body, func(item []byte) error {
				if !yield(item) {
					return errStop
				}
				return nil
			})
		}, nil
	}
	if name == "csv" {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		if line = bytes.TrimRight(line, "\r"); q.names(line) {
			names, err := codec.ParseHeader(line, codec.SignatureOf(q.pinned.Codec()).CSV.Comma)
			if err == nil {
				q.pinned, err = q.pinned.WithColumns(names).Pin()
			}
			if err != nil {
				return nil, err
			}
			body = rest
		}
	}
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(body) {
			if !yield(bytes.TrimRight(line, "\r\n")) {
				return
			}
		}
	}, nil
}

// errStop stops the iteration over a list.
var errStop = errors.New("stop")

// names reports whether the line holds the name of a feature of the model, as no
// record does.
func (q *request) names(line []byte) bool {
	sig := q.pinned.Current().Signature()
	features := sig.Features()
	if features == nil {
		return false
	}
	names, err := codec.ParseHeader(line, codec.SignatureOf(q.pinned.Codec()).CSV.Comma)
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		_, number := strconv.ParseFloat(name, 64)
		return number != nil && slices.Contains(features, name)
	})
}
