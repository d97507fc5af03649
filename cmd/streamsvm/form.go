package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// csvHeader is the first line of a csv file, which names its columns.
type csvHeader struct {
	names []string
	file  string // "PATH: ", a prefix for errors; may be empty
}

// errLabels says that --labels contradicts a model.
var errLabels = errors.New("the model was made for other labels")

// scorer returns a Scorer for the versions that current returns. Flags override what
// a version says about its data. h is the header of the csv file that is read; if it
// is nil, the first of the files may have one.
func (o *codecFlags) scorer(c *cli.Call, current func() *predictor.Version, so predictor.ScorerOptions, h *csvHeader, files ...string) (*predictor.Scorer, error) {
	so.Adapt, so.Strict = o.adapt(c, files), o.name != ""
	if o.registry != nil {
		so.Schemas = o.registry
	}
	var sig codec.Signature
	if v := current(); v != nil {
		sig = v.Signature()
	}
	if err := so.Adapt(&sig); err != nil {
		return nil, err
	}
	if codec.Schematic(sig.Codec) {
		var err error
		if so.Written, err = o.written(c); err != nil {
			return nil, err
		}
	}
	if h == nil && sig.Codec == "csv" && sig.CSV.Header && len(files) > 0 && files[0] != "-" {
		line, err := fileio.Header(files[0])
		if err != nil {
			return nil, err
		}
		if h, err = parseHeader(line, sig.CSV.Comma); err != nil {
			return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", files[0], err))
		}
		h.file = files[0] + ": "
	}
	if h != nil {
		so.Columns = h.names
	}
	s, err := predictor.NewScorer(current, so)
	return s, badRecords(c, h, err)
}

// badRecords turns a *predictor.RecordsError into an error about a flag, or about the
// header of a csv file.
func badRecords(c *cli.Call, h *csvHeader, err error) error {
	var bad *predictor.RecordsError
	switch {
	case !errors.As(err, &bad):
		return err
	case h != nil:
		return cli.Fail(cli.Data, fmt.Errorf("%sthe header: %w; --csv-header=false reads csv without one", h.file, bad.Err))
	}
	return c.Bad("codec", bad.Err)
}

// adapt returns a function that applies the flags to the signature of a model.
func (o *codecFlags) adapt(c *cli.Call, files []string) func(*codec.Signature) error {
	return func(sig *codec.Signature) error {
		trained := sig.Codec
		var err error
		if sig.Codec, err = o.codecFor(c, trained, files); err != nil {
			return err
		}
		switch known := sig.Labels; {
		case o.labels == codec.Auto:
		case known == "":
			sig.Labels = o.labels
		default:
			if same, err := sameLabels(o.labels, known); err != nil {
				return c.Bad("labels", err)
			} else if c.Given("labels") && !same {
				return c.Bad("labels", fmt.Errorf("%w, %s", errLabels, known))
			}
		}
		if c.Given("max-features") {
			sig.MaxFeatures = o.maxFeatures
		}
		if sig.Codec == "csv" {
			return o.csvFor(c, trained, &sig.CSV)
		}
		return nil
	}
}

// sameLabels reports whether given are the labels of a model. If there are more than two,
// the model may have found others in the stream.
func sameLabels(given, known string) (bool, error) {
	a, err1 := codec.ParseClasses(given)
	b, err2 := codec.ParseClasses(known)
	if err := cmp.Or(err1, err2); err != nil {
		return false, err
	}
	return (len(a) > 2) == (len(b) > 2) && len(a) <= len(b) && slices.Equal(a, b[:len(a)]), nil
}

// codecFor returns the codec of records: given by --codec, by the name of the first
// file, by the data that the model was made for, or the default.
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

// csvFor applies the flags to the csv layout of the training data.
func (o *codecFlags) csvFor(c *cli.Call, trained string, csv *codec.CSVOptions) error {
	if len(o.comma) != 1 {
		return c.Bad("csv-separator", fmt.Errorf("%q is not a single byte", o.comma))
	}
	if trained != "csv" {
		*csv = o.csv
		csv.Comma = o.comma[0]
		return nil
	}
	for name, take := range map[string]func(){
		"csv-header":    func() { csv.Header = o.csv.Header },
		"label-column":  func() { csv.LabelColumn = o.csv.LabelColumn },
		"drop-columns":  func() { csv.DropColumns = o.csv.DropColumns },
		"csv-separator": func() { csv.Comma = o.comma[0] },
	} {
		if c.Given(name) {
			take()
		}
	}
	return nil
}

// scoredFiles completes the options for reading the files that s scores; first is the
// name of the first file. found is called with the header of each csv file.
func scoredFiles(s *predictor.Scorer, o *fileio.Options, first string, found func(*csvHeader) error) {
	if _, ok := codec.ByFileName(first); !ok {
		if o.Codec = s.Codec().Name(); codec.Schematic(o.Codec) {
			o.Codec = "json"
		}
	}
	csv := codec.SignatureOf(s.Codec()).CSV
	o.Header = csv.Header
	o.OnHeader = func(_ string, line []byte) error {
		h, err := parseHeader(line, csv.Comma)
		if err == nil {
			err = found(h)
		}
		return err
	}
}

// parseHeader parses the first line of a csv file.
func parseHeader(line []byte, comma byte) (*csvHeader, error) {
	if len(line) > 0 && line[0] == '{' {
		return nil, cli.Failf(cli.Data, "this is JSON, not the header of a csv file: say --codec json")
	}
	names, err := codec.ParseHeader(line, comma)
	if err != nil {
		return nil, cli.Fail(cli.Data, err)
	}
	return &csvHeader{names: names}, nil
}
