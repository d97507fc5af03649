package codec

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/stream"
)

// CSVOptions describe the columns of csv. A column is given by its name, if Columns has
// it, by its 1-based number, or as "first" or "last".
type CSVOptions struct {
	// Header says that the first record of a file has the names of the columns. It must
	// not be passed to a decoder: the reader of the file removes it, and may set Columns with
	// ParseHeader. The writer of a file writes Codec.Header first.
	Header bool
	// Columns names the columns. If it is set, every record must have that many fields.
	Columns []string
	// LabelColumn is the column of the label; the default, empty, is none.
	LabelColumn string
	// DropColumns are columns to ignore.
	DropColumns []string
	// EmptyAsZero decodes an empty field as 0; by default it is an error. An empty label
	// always means that there is none.
	EmptyAsZero bool
	// Comma separates fields, default ','.
	Comma byte
	// Features names the columns that are features, in the order of the vector. It needs
	// Columns. All other columns except the label are ignored. By default features have the
	// order of the columns. It is for decoding only.
	Features []string
	// Dim, if positive, is the number of features of every record. A record with exactly
	// that many fields then has neither a label nor columns to drop.
	Dim int
}

// csvCodec reads and writes one record of comma-separated values (RFC 4180)
// per value, with or without its end of line:
//
//	0.5,1.25,1
//
// The fields that are neither label nor dropped are the features of a dense
// vector, in their order. Blanks around a field are removed, a field may be in
// double quotes. If the label is empty or "?", the example is unlabelled.
// The form carries no ID.
type csvCodec struct {
	common
	o     CSVOptions
	label int // column of the label from 0 on, noColumn, or lastColumn
	drop  []bool
	to    []int // the feature of each column, or -1; nil: column order
}

const (
	noColumn   = -1
	lastColumn = -2
)

func newCSV(c common, o CSVOptions) (*csvCodec, error) {
	if o.Comma == 0 {
		o.Comma = ','
	}
	if strings.IndexByte("\"\r\n +-.?0123456789eE", o.Comma) >= 0 || o.Comma >= 0x80 {
		return nil, fmt.Errorf("option Comma is %q, which cannot separate numbers", o.Comma)
	}
	for _, t := range c.labels.text {
		if strings.IndexByte(t, o.Comma) >= 0 {
			return nil, fmt.Errorf("the label %q contains the separator of fields", t)
		}
	}
	c.labels.forbid = string([]byte{o.Comma})
	d := &csvCodec{common: c, o: o, label: noColumn}
	if o.LabelColumn != "" {
		k, err := o.column(o.LabelColumn)
		if err != nil {
			return nil, err
		}
		d.label = k
	}
	for _, name := range o.DropColumns {
		k, err := o.column(name)
		if err == nil && k == lastColumn {
			err = fmt.Errorf("column %q: drop the last column by its number", name)
		}
		if err == nil && k == d.label {
			err = fmt.Errorf("column %q holds the label", name)
		}
		if err == nil && k >= c.maxDim {
			err = fmt.Errorf("column %q is beyond the limit of %d features", name, c.maxDim)
		}
		if err != nil {
			return nil, fmt.Errorf("DropColumns: %w", err)
		}
		for len(d.drop) <= k {
			d.drop = append(d.drop, false)
		}
		d.drop[k] = true
	}
	return d, d.order()
}

// order looks up the columns of Features.
func (c *csvCodec) order() error {
	if c.o.Features == nil {
		return nil
	}
	if len(c.o.Features) > c.maxDim {
		return fmt.Errorf("Features: %d features, the limit is %d", len(c.o.Features), c.maxDim)
	}
	at := make(map[string]int, len(c.o.Columns))
	c.to = make([]int, len(c.o.Columns))
	for k, name := range c.o.Columns {
		at[name], c.to[k] = k, -1
	}
	var missing []string
	for j, name := range c.o.Features {
		k, ok := at[name]
		switch {
		case !ok:
			missing = append(missing, strconv.Quote(name))
			continue
		case k == c.label:
			return fmt.Errorf("Features: column %q holds the label", name)
		case k < len(c.drop) && c.drop[k]:
			return fmt.Errorf("Features: column %q is one of those to drop", name)
		case c.to[k] >= 0:
			return fmt.Errorf("Features: column %q comes twice", name)
		}
		c.to[k] = j
	}
	if missing != nil {
		return fmt.Errorf("there is no column %s, there are %s", strings.Join(missing, ", "), strings.Join(c.o.Columns, ", "))
	}
	return nil
}

// column returns the 0-based position of the column that s names.
func (o *CSVOptions) column(s string) (int, error) {
	for k, name := range o.Columns {
		if name == s {
			return k, nil
		}
	}
	switch s {
	case "first":
		return 0, nil
	case "last":
		if n := len(o.Columns); n > 0 {
			return n - 1, nil
		}
		return lastColumn, nil
	}
	k, err := strconv.Atoi(s)
	if err != nil {
		if len(o.Columns) == 0 {
			return 0, fmt.Errorf("no column is called %q, since no header has that name: see whether --csv-separator is right, or give the number of the column, from 1 on", s)
		}
		return 0, fmt.Errorf("column %q is unknown, there are %s", s, strings.Join(o.Columns, ", "))
	}
	if k < 1 || len(o.Columns) > 0 && k > len(o.Columns) {
		return 0, fmt.Errorf("column %d does not exist, the first is 1", k)
	}
	return k - 1, nil
}

func (*csvCodec) Name() string { return "csv" }

// ParseHeader returns the names in a header line, without the blanks around them.
func ParseHeader(line []byte, comma byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))))
	if comma != 0 {
		r.Comma = rune(comma)
	}
	names, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("header of csv: %w", err)
	}
	seen := make(map[string]bool, len(names))
	for k, name := range names {
		names[k] = strings.TrimSpace(name)
		if seen[names[k]] {
			return nil, fmt.Errorf("header of csv: the name %q comes twice", names[k])
		}
		seen[names[k]] = true
	}
	return names, nil
}

// Header returns the line, without its end, that a file must start with, nil
// if there is none.
func (c *csvCodec) Header() []byte {
	if !c.o.Header || len(c.o.Columns) == 0 {
		return nil
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Comma = rune(c.o.Comma)
	// A bytes.Buffer takes every write.
	_ = w.Write(c.o.Columns)
	w.Flush()
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// csvFields iterates over the fields of a record.
type csvFields struct {
	c     *csvCodec
	b     []byte
	i     int  // where the next field starts; len(b)+1 behind the last one
	k     int  // number of fields read so far
	lines bool // b holds line ends, which only a field in quotes may have
}

// fields returns an iterator at the first field of a record.
func (c *csvCodec) fields(value []byte) (csvFields, error) {
	r := csvFields{c: c, b: trimLine(value)}
	if err := checkSize(value); err != nil {
		return r, err
	}
	if c.skip(r.b, 0) == len(r.b) {
		return r, fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	r.lines = bytes.IndexByte(r.b, '\n') >= 0
	return r, nil
}

// last reports whether there are no more fields.
func (r *csvFields) last() bool { return r.i > len(r.b) }

// next returns the next field, without quotes and the blanks around it.
func (r *csvFields) next() (f []byte, more bool, err error) {
	if r.last() {
		return nil, false, nil
	}
	c, b := r.c, r.b
	i := c.skip(b, r.i)
	r.k++
	if i == len(b) || b[i] != '"' {
		end := len(b)
		if k := bytes.IndexByte(b[i:], c.o.Comma); k >= 0 {
			end = i + k
		}
		f, r.i = b[i:end], end+1
		if r.lines && bytes.IndexByte(f, '\n') >= 0 {
			return nil, false, r.improper(c.trim(f))
		}
		return c.trim(f), true, nil
	}
	start := i + 1
	for i = start; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		if i+1 < len(b) && b[i+1] == '"' {
			i++
			continue
		}
		f = b[start:i]
		if i = c.skip(b, i+1); i < len(b) && b[i] != c.o.Comma {
			break
		}
		r.i = i + 1
		return c.trim(f), true, nil
	}
	return nil, false, r.improper(b[start-1:])
}

func (r *csvFields) improper(f []byte) error {
	return failf(stream.StageDecode, stream.ReasonSyntax, r.c.name(r.k-1), "%s has no proper end", quoted(f))
}

// skip is skipBlank, except that a blank may be the separator.
func (c *csvCodec) skip(b []byte, i int) int {
	for i < len(b) && blank(b[i]) && b[i] != c.o.Comma {
		i++
	}
	return i
}

// trim cuts the blanks around a field.
func (c *csvCodec) trim(b []byte) []byte {
	b = b[c.skip(b, 0):]
	for len(b) > 0 && blank(b[len(b)-1]) && b[len(b)-1] != c.o.Comma {
		b = b[:len(b)-1]
	}
	return b
}

// name returns the name of column k in errors.
func (c *csvCodec) name(k int) string {
	if k < len(c.o.Columns) {
		return fmt.Sprintf("column %d (%s)", k+1, quoted([]byte(c.o.Columns[k])))
	}
	return fmt.Sprintf("column %d", k+1)
}

// Decode implements stream.Decoder.
func (c *csvCodec) Decode(value []byte, ex *stream.Example) error { return c.DecodeIn(nil, value, ex) }

// DecodeIn implements stream.ArenaDecoder.
func (c *csvCodec) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	r, err := c.fields(value)
	if err != nil {
		return err
	}
	n := bytes.Count(r.b, []byte{c.o.Comma}) + 1
	column, drop := c.label, c.drop
	alone := n == c.o.Dim && c.to == nil && (column != noColumn || drop != nil)
	if alone {
		column, drop = noColumn, nil
	}
	var d draft
	val := a.Val(min(n, c.maxDim))
	if c.to != nil {
		if n < len(c.to) { // otherwise a short record could take much memory
			return failf(stream.StageDecode, stream.ReasonDimension, "", "%d fields, want %d", n, len(c.to))
		}
		val = val[:len(c.o.Features)]
	}
	found := column == noColumn
	for {
		f, more, err := r.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		k := r.k - 1
		switch {
		case k < len(drop) && drop[k]:
		case k == column || column == lastColumn && r.last():
			found = true
			if len(f) > 0 && !(len(f) == 1 && f[0] == '?') {
				if d.y, err = c.labelOf(f, k); err != nil {
					return err
				}
				d.labelled = true
			}
		case c.to == nil && len(val) == c.maxDim:
			return failf(stream.StageFeature, stream.ReasonLimit, c.name(k), "more than %d features", c.maxDim)
		case c.to != nil && (k >= len(c.to) || c.to[k] < 0): // too many fields are found below
		default:
			v, err := c.value(f, k)
			if err != nil {
				return err
			}
			if c.to == nil {
				val = append(val, v)
			} else {
				val[c.to[k]] = v
			}
		}
	}
	if want := len(c.o.Columns); want > 0 && r.k != want && !alone {
		return failf(stream.StageDecode, stream.ReasonDimension, "", "%d fields, want %d%s", r.k, want, c.orAlone())
	}
	if !found && column == lastColumn {
		return failf(stream.StageLabel, stream.ReasonDimension, c.name(r.k-1), "the last column is one of those to drop")
	}
	if !found {
		return failf(stream.StageLabel, stream.ReasonMissing, c.name(column), "missing, there are %d fields", r.k)
	}
	if want := c.o.Dim; want > 0 && c.to == nil && len(val) != want {
		return failf(stream.StageFeature, stream.ReasonDimension, "x", "%d fields, want %d%s", r.k, r.k-len(val)+want, c.orAlone())
	}
	d.x.Val = val
	d.finish(a, ex)
	return nil
}

// orAlone describes a record of features only, for errors.
func (c *csvCodec) orAlone() string {
	if c.o.Dim == 0 || c.to != nil || c.label == noColumn && c.drop == nil {
		return ""
	}
	return fmt.Sprintf(", or the %d features alone", c.o.Dim)
}

// value parses the feature in column k.
func (c *csvCodec) value(f []byte, k int) (float32, error) {
	if v, n := short32(f); n > 0 && n == len(f) {
		return v, nil
	}
	d, n := scan(f)
	if n == 0 || n != len(f) {
		switch {
		case len(f) == 0 && c.o.EmptyAsZero:
			return 0, nil
		case len(f) == 0:
			return 0, failf(stream.StageDecode, stream.ReasonEmpty, c.name(k), "the field is empty")
		case nonFinite(f):
			return 0, failf(stream.StageFeature, stream.ReasonNotFinite, c.name(k), "the value is %s", quoted(f))
		}
		return 0, failf(stream.StageDecode, stream.ReasonSyntax, c.name(k), "%s is not a number", quoted(f))
	}
	v := d.float32(f)
	if v-v != 0 {
		return 0, failf(stream.StageFeature, stream.ReasonNotFinite, c.name(k), "%s overflows a float32", quoted(f))
	}
	return v, nil
}

// Append implements stream.Encoder. A sparse vector is written with its zeros,
// up to its last feature or to the number of feature columns in Columns; dropped
// columns are left empty.
func (c *csvCodec) Append(dst []byte, ex *stream.Example) ([]byte, error) {
	if c.to != nil {
		return dst, failf(stream.StageDecode, stream.ReasonOther, "", "a codec with Features only decodes")
	}
	if err := c.checkVec(ex.X); err != nil {
		return dst, err
	}
	dim := ex.X.Dim()
	if ex.Labelled && c.label == noColumn {
		return dst, failf(stream.StageLabel, stream.ReasonMissing, "y", "there is no column for the label")
	}
	columns := len(c.o.Columns)
	if columns > 0 {
		room := columns
		if c.label != noColumn {
			room--
		}
		for _, d := range c.drop {
			if d {
				room--
			}
		}
		if dim > room || dim < room && !ex.X.Sparse() {
			return dst, failf(stream.StageFeature, stream.ReasonDimension, "x", "%d features, there are columns for %d", dim, room)
		}
		dim = room
	}
	out := dst
	next, at := 0, 0 // next feature, next position in a sparse vector
	for k := 0; ; k++ {
		isLabel := k == c.label || c.label == lastColumn && next == dim
		dropped := k < len(c.drop) && c.drop[k]
		if dropped {
			isLabel = false
		}
		if next == dim && !isLabel && !dropped && k > c.label {
			break
		}
		if !isLabel && !dropped && next == dim {
			return dst, failf(stream.StageFeature, stream.ReasonDimension, "x", "%d features leave column %d empty, before the label's", dim, k+1)
		}
		if k > 0 {
			out = append(out, c.o.Comma)
		}
		switch {
		case isLabel:
			if ex.Labelled {
				var err error
				if out, err = c.labels.appendText(out, ex); err != nil {
					return dst, err
				}
			}
		case dropped:
		default:
			v := float32(0)
			if !ex.X.Sparse() {
				v = ex.X.Val[next]
			} else if at < len(ex.X.Idx) && int(ex.X.Idx[at]) == next {
				v = ex.X.Val[at]
				at++
			}
			next++
			out = appendFloat32(out, v)
		}
		if isLabel && c.label == lastColumn {
			break
		}
	}
	if len(out) == len(dst) {
		return dst, failf(stream.StageDecode, stream.ReasonEmpty, "", "an example without features and label makes an empty record")
	}
	return out, nil
}
