package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// form is how the records that a model is to score are read, and how its labels
// are written: as in the data it was made for, unless flags say otherwise.
type form struct {
	dec codec.Codec
	// json, if not nil, is for records that are JSON objects where dec expects
	// another text.
	json   codec.Codec
	sig    codec.Signature
	labels []string // −1 and +1, or by number, in JSON; nil for a regression
	texts  []string // and as text
	opts   codec.Options
	// explain is how many contributions a prediction has, features what features
	// are called; nil where they have numbers only.
	explain  int
	features []string
	// rowForm is what requests of rows in JSON need.
	rowForm func() (*rowForm, error)
}

// csvHeader is the first line of a csv file, which names its columns.
type csvHeader struct {
	names []string
}

// errLabels says that --labels contradicts a model.
var errLabels = errors.New("the model was made for other labels")

// form returns the form of records for the model. Those of a csv file with a
// header have columns of these names, others of a topic, of requests, or of the
// files given.
func (o *codecFlags) form(c *cli.Call, p *predictor.Predictor, h *csvHeader, files ...string) (*form, error) {
	f := &form{sig: p.Signature()}
	name, err := o.codecFor(c, f.sig.Codec, files)
	if err != nil {
		return nil, err
	}
	opts := codec.Options{Task: string(p.Task()), Labels: o.labels, MaxFeatures: o.maxFeatures, Schema: f.sig.Schema}
	if o.labels == codec.Auto {
		opts.Labels = f.sig.Labels
	} else if known := f.sig.Labels; known != "" {
		if same, err := sameLabels(o.labels, known); err != nil {
			return nil, c.Bad("labels", err)
		} else if c.Given("labels") && !same {
			return nil, c.Bad("labels", fmt.Errorf("%w, %s", errLabels, known))
		}
		opts.Labels = known
	}
	if !c.Given("max-features") {
		opts.MaxFeatures = max(opts.MaxFeatures, f.sig.MaxFeatures)
	}
	if err := o.schemaFlags.options(c, name, &opts); err != nil {
		return nil, err
	}
	f.opts = opts
	file := "" // that h is of, where others do not say so
	if name == "csv" {
		if opts.CSV, err = o.csvFor(c, &f.sig); err != nil {
			return nil, err
		}
		if h == nil && opts.CSV.Header && len(files) > 0 && files[0] != "-" {
			line, err := fileio.Header(files[0])
			if err != nil {
				return nil, err
			}
			if h, err = parseHeader(line, opts.CSV.Comma); err != nil {
				return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", files[0], err))
			}
			file = files[0] + ": "
		}
		if h != nil {
			o.byName(c, &opts.CSV, &f.sig, h)
		}
	}
	if f.dec, err = codec.New(name, opts); err != nil {
		if h != nil {
			return nil, cli.Fail(cli.Data, fmt.Errorf("%sthe header: %w; --csv-header=false reads csv without one", file, err))
		}
		return nil, c.Bad("codec", err)
	}
	if codec.Schematic(name) || o.name == "" && (name == "libsvm" || name == "csv") {
		if f.json, err = codec.New("json", codec.Options{Task: opts.Task, Labels: opts.Labels, MaxFeatures: opts.MaxFeatures, Schema: opts.Schema}); err != nil {
			return nil, c.Bad("codec", err)
		}
	}
	if p.Task() == algos.Regress {
		return f, nil
	}
	labels, err := codec.ParseClasses(opts.Labels)
	if err != nil {
		return nil, c.Bad("labels", err)
	}
	if n := p.Classes(); n > 2 && f.sig.Labels == "" { // the classes have numbers only
		labels = labels[:0]
		for k := range n {
			labels = append(labels, float64(k))
		}
	}
	for _, v := range labels {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		text, ok := v.(string)
		if !ok {
			text = string(b)
		}
		f.labels, f.texts = append(f.labels, string(b)), append(f.texts, text)
	}
	return f, nil
}

// sameLabels reports whether given are the labels of a model. To more than two,
// others may have been added in the stream.
func sameLabels(given, known string) (bool, error) {
	a, err1 := codec.ParseClasses(given)
	b, err2 := codec.ParseClasses(known)
	if err := cmp.Or(err1, err2); err != nil {
		return false, err
	}
	return (len(a) > 2) == (len(b) > 2) && len(a) <= len(b) && slices.Equal(a, b[:len(a)]), nil
}

// codecFor returns the codec of records: that of --codec, that which the name of
// the first file says, that of the data the model was made for, or the default.
func (o *codecFlags) codecFor(c *cli.Call, trained string, files []string) (string, error) {
	if o.name != "" {
		return o.name, nil
	}
	if len(files) > 0 && !strings.HasSuffix(files[0], fileio.RecordingExt) {
		if name, ok := codec.ByFileName(files[0]); ok {
			return name, nil
		}
		if trained == "" {
			return "", o.noCodec(c, files[0])
		}
	}
	return cmp.Or(trained, defaultCodec), nil
}

// csvFor returns what the columns are: those of the data that the model was made
// for, but for what flags say.
func (o *codecFlags) csvFor(c *cli.Call, sig *codec.Signature) (codec.CSVOptions, error) {
	if len(o.comma) != 1 {
		return o.csv, c.Bad("csv-separator", fmt.Errorf("%q is not a single byte", o.comma))
	}
	csv := o.csv
	csv.Comma = o.comma[0]
	if sig.Codec == "csv" {
		csv = sig.CSV
		for name, take := range map[string]func(){
			"csv-header":        func() { csv.Header = o.csv.Header },
			"label-column":      func() { csv.LabelColumn = o.csv.LabelColumn },
			"drop-columns":      func() { csv.DropColumns = o.csv.DropColumns },
			"csv-empty-as-zero": func() { csv.EmptyAsZero = o.csv.EmptyAsZero },
			"csv-separator":     func() { csv.Comma = o.comma[0] },
		} {
			if c.Given(name) {
				take()
			}
		}
	}
	if sig.Schema == "" {
		csv.Dim = sig.Length()
	}
	return csv, nil
}

// byName makes the columns those of a header. Where those of the model have
// names too, it is these that count.
func (o *codecFlags) byName(c *cli.Call, csv *codec.CSVOptions, sig *codec.Signature, h *csvHeader) {
	csv.Columns = h.names
	if csv.Features = sig.Features(); csv.Features == nil && sig.Schema == "" {
		return
	}
	if !c.Given("label-column") && !slices.Contains(h.names, csv.LabelColumn) {
		csv.LabelColumn = ""
	}
	if !c.Given("drop-columns") {
		csv.DropColumns = nil
	}
}

// files completes the options for reading files, of which first is the first
// one; found is told the columns of each csv file that begins with a header.
func (f *form) files(o *fileio.Options, first string, found func(*csvHeader) error) {
	if _, ok := codec.ByFileName(first); !ok {
		if o.Codec = f.dec.Name(); codec.Schematic(o.Codec) {
			o.Codec = "json"
		}
	}
	o.Header = codec.SignatureOf(f.dec).CSV.Header
	o.OnHeader = func(_ string, line []byte) error {
		h, err := parseHeader(line, codec.SignatureOf(f.dec).CSV.Comma)
		if err == nil {
			err = found(h)
		}
		return err
	}
}

// parseHeader returns what the first line of a csv file says.
func parseHeader(line []byte, comma byte) (*csvHeader, error) {
	if len(line) > 0 && line[0] == '{' {
		return nil, cli.Failf(cli.Data, "this is JSON, not the header of a csv file: say --codec json")
	}
	names, err := codec.ParseHeader(line, comma)
	if err != nil {
		return nil, cli.Fail(cli.Data, err)
	}
	return &csvHeader{names}, nil
}

// names reports whether the line holds the name of a feature of the model, as
// no record does.
func (f *form) names(line []byte) bool {
	features := f.sig.Features()
	if features == nil {
		return false
	}
	names, err := codec.ParseHeader(line, codec.SignatureOf(f.dec).CSV.Comma)
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		_, number := strconv.ParseFloat(name, 64)
		return number != nil && slices.Contains(features, name)
	})
}

// decode reads a record and refuses a dense vector that is not for the model.
func (f *form) decode(ctx context.Context, a *stream.Arena, r *stream.Record, ex *stream.Example) error {
	if f.json != nil && len(r.Value) > 0 && r.Value[0] == '{' {
		err := f.json.DecodeIn(a, r.Value, ex)
		if err == nil {
			return f.sig.Check(ex.X)
		}
		if !codec.Schematic(f.dec.Name()) { // whose records may begin with any byte
			return err
		}
	}
	if err := stream.DecodeRecord(ctx, f.dec, a, r, ex); err != nil {
		return err
	}
	return f.sig.Check(ex.X)
}

// appendLabel appends a label in JSON, in the words of the data.
func (f *form) appendLabel(b []byte, y float64) []byte {
	if f.labels == nil {
		return serve.AppendNumber(b, y)
	}
	return append(b, f.labels[f.index(y)]...)
}

// index is that of the label y in labels and texts.
func (f *form) index(y float64) int {
	switch {
	case len(f.labels) > 2:
		return int(y)
	case y > 0:
		return 1
	}
	return 0
}
