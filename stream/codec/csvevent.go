package codec

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// csvEvents reads events whose fields are columns. A field has the name of its column, or
// its 1-based number if columns have no names.
type csvEvents struct {
	csvCodec
	encoder
	at   []int     // of each column, as in names; shorter if columns have no names
	rows sync.Pool // of *events.Row
}

func newCSVEvents(c *csvCodec, schema string) (*csvEvents, error) {
	e, err := newEncoder(schema)
	if err != nil {
		return nil, err
	}
	d := &csvEvents{csvCodec: *c, encoder: e}
	d.rows.New = func() any { return new(events.Row) }
	n := len(c.o.Columns)
	if n == 0 {
		for i := range e.schema.Fields {
			k, err := strconv.Atoi(e.schema.Fields[i].Name)
			if err == nil && k > 0 && k <= events.MaxFields {
				n = max(n, k)
			}
		}
		n = max(n, c.label+1)
	}
	d.at = make([]int, n)
	for k := range d.at {
		d.at[k] = ignored
		name := d.column(k)
		if found := e.names.byKey[name]; found != nil {
			d.at[k] = found.at
		}
		if k == c.label {
			d.at[k] = labelAt
		}
		if k < len(c.drop) && c.drop[k] {
			d.at[k] = ignored
		}
	}
	return d, nil
}

// column returns the schema's name for column k.
func (c *csvCodec) column(k int) string {
	if k < len(c.o.Columns) {
		return c.o.Columns[k]
	}
	return strconv.Itoa(k + 1)
}

// Decode implements stream.Decoder.
func (c *csvEvents) Decode(value []byte, ex *stream.Example) error { return c.DecodeIn(nil, value, ex) }

// DecodeIn implements stream.ArenaDecoder.
func (c *csvEvents) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	row := c.rows.Get().(*events.Row)
	defer c.rows.Put(row)
	row.Reset(len(c.schema.Fields))
	var d draft
	err := c.split(value, func(k, of int, f []byte) error {
		at := ignored
		switch {
		case k < len(c.at):
			at = c.at[k]
		case c.label == lastColumn && k == of-1:
			at = labelAt
		default:
			row.Unlisted++
		}
		switch {
		case at >= 0:
			textCell(&row.Cells[at], f, c.schema.Fields[at].Type)
		case at == labelAt:
			if none(f) {
				return nil
			}
			y, err := c.labelOf(f, k)
			d.y, d.labelled = y, err == nil
			return err
		case at == idAt:
			d.id = string(f)
		case at == weightAt && len(f) > 0:
			number, n := scan(f)
			if n == 0 || n != len(f) {
				return failf(stream.StageFeature, stream.ReasonSyntax, c.name(k), "the weight is %s, want a finite number above 0", quoted(f))
			}
			var err error
			d.weight, err = weightOf(number.float64(f), c.name(k))
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if d.x, err = c.encode(row, a); err != nil {
		return err
	}
	d.finish(nil, ex)
	return nil
}

// Append implements stream.Encoder. An event cannot be restored from its features.
func (c *csvEvents) Append(dst []byte, _ *stream.Example) ([]byte, error) {
	return dst, failf(stream.StageDecode, stream.ReasonOther, "", "events can only be read")
}

// split calls f with each field of a record, its number k from 0 on, and the number of
// fields, which is guessed from the commas if columns have no names.
func (c *csvCodec) split(value []byte, f func(k, of int, field []byte) error) error {
	r, err := c.fields(value)
	if err != nil {
		return err
	}
	of := len(c.o.Columns)
	if of == 0 {
		of = bytes.Count(r.b, []byte{c.o.Comma}) + 1
	}
	for {
		field, more, err := r.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if bytes.IndexByte(field, '"') >= 0 {
			field = bytes.ReplaceAll(field, []byte(`""`), []byte(`"`))
		}
		if err := f(r.k-1, of, field); err != nil {
			return err
		}
	}
	if want := len(c.o.Columns); want > 0 && r.k != want {
		return failf(stream.StageDecode, stream.ReasonDimension, "", "%d fields, want %d", r.k, want)
	}
	return nil
}

// labelOf reads the label in column k.
func (c *csvCodec) labelOf(f []byte, k int) (label, error) {
	if !c.labels.numeric() {
		return c.labels.word(f)
	}
	number := f
	d, n := scan(number)
	if n != len(f) && c.labels.regress && c.o.Comma == ';' { // the decimal point may be a comma
		number = bytes.Replace(f, []byte(","), []byte("."), 1)
		d, n = scan(number)
	}
	if n == 0 || n != len(number) {
		return label{}, failf(stream.StageLabel, stream.ReasonSyntax, c.name(k), "the label is %s, want a number", quoted(f))
	}
	return c.labels.decode(d.float64(number))
}

// none reports whether a field is a missing value, as spreadsheets, R and pandas
// write it.
func none(f []byte) bool {
	switch string(f) {
	case "", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None":
		return true
	}
	return false
}

// textCell sets a cell to a text, or to a number if a field of that type wants one.
func textCell(c *events.Cell, f []byte, want events.Type) {
	if none(f) {
		c.Kind = events.Null
		return
	}
	if want == events.Numeric || want == events.Timestamp {
		if d, n := scan(f); n > 0 && n == len(f) {
			if v := d.float64(f); v-v == 0 {
				c.Kind, c.Num = events.Number, v
				return
			}
		}
	}
	c.Kind, c.Text = events.Text, f
}

// csvFields returns all fields of a record.
func (c *csvCodec) csvFields(value []byte) (list []events.NamedCell, err error) {
	err = c.split(value, func(k, of int, f []byte) error {
		if k < len(c.drop) && c.drop[k] {
			return nil
		}
		n := events.NamedCell{Name: c.column(k)}
		textCell(&n.Cell, f, "")
		n.Cell.Text = bytes.Clone(n.Cell.Text)
		if k == c.label || c.label == lastColumn && k == of-1 {
			n.Name = csvLabel
		}
		list = append(list, n)
		return nil
	})
	return list, err
}

// csvLabel is the name that a Discovery gives to the label column.
const csvLabel = "\x00label"

// LooksLikeHeader reports whether the first line of a csv file names its columns: it
// holds no number or time, no empty field and no duplicates, and the second line has
// numbers or times.
func LooksLikeHeader(lines [][]byte, comma byte) bool {
	if len(lines) < 2 {
		return false
	}
	c, err := newCSV(common{maxDim: DefaultMaxFeatures}, CSVOptions{Comma: comma})
	if err != nil {
		return false
	}
	seen, columns, values, numbers := map[string]bool{}, 0, 0, 0
	head := c.split(lines[0], func(_, _ int, f []byte) error {
		columns++
		if events.Measured(f) || none(f) || seen[string(f)] {
			return errEmpty
		}
		seen[string(f)] = true
		return nil
	})
	row := c.split(lines[1], func(_, _ int, f []byte) error {
		values++
		if events.Measured(f) {
			numbers++
		}
		return nil
	})
	return head == nil && row == nil && values == columns && numbers > 0
}
