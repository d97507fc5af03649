package dlq

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// letterList is dlq list.
type letterList struct {
	*letterFlags
	json, values bool

	reasons                    map[string]int // letters listed, by reason
	truncated, filtered, other int            // truncated letters, skipped letters, records that are not letters
}

func (l *letterList) define(f *cli.Flags) {
	f.Group("List", func() {
		f.BoolVar(&l.json, "json", false, "print JSON")
		f.BoolVar(&l.values, "values", false, "print the record's key and value, too")
	})
}

// place is the position of a letter, and when it was sent.
type place struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Time      *time.Time `json:"time"`
}

// letter is the content of the headers of a letter.
type letter = deadletter.Letter

// letterLine is the output of dlq list --json for a letter.
type letterLine struct {
	Letter  place  `json:"letter"`
	*letter        // nil if the record is not a letter; Error then says why
	Error   string `json:"error,omitempty"`
	// Bytes is the length of the value in the letter, Whole the length of the record's
	// value if the letter was truncated.
	Bytes int          `json:"bytes"`
	Whole int64        `json:"whole_bytes,omitempty"`
	Key   *textOrBytes `json:"key,omitempty"`
	Value *textOrBytes `json:"value,omitempty"`
}

// textOrBytes is text in JSON if it is UTF-8, else an object with its base64.
type textOrBytes []byte

// MarshalJSON implements json.Marshaler.
func (b textOrBytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string][]byte{"base64": b})
}

func (l *letterList) run(ctx context.Context) error {
	l.reasons = map[string]int{}
	src, err := l.open(ctx, nil, kafkaio.StartEarliest, kafkaio.OutOfRangeEarliest)
	if err != nil {
		return l.ended(ctx, err)
	}
	defer src.Close()
	out := bufio.NewWriter(l.c.Out)
	var recs []stream.Record
	for err == nil {
		recs, err = src.Fetch(ctx, recs[:0])
		for i := 0; err == nil && i < len(recs); i++ {
			if err := l.show(out, &recs[i]); err != nil {
				return err
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return errors.Join(out.Flush(), l.ended(ctx, err))
	}
	if !l.json {
		fmt.Fprintln(out, l.summary())
	} else if !l.c.Quiet {
		fmt.Fprintln(l.c.Err, l.summary())
	}
	return out.Flush()
}

// show prints a record unless it is skipped.
func (l *letterList) show(w io.Writer, r *stream.Record) error {
	line := letterLine{Letter: place{r.Topic, r.Partition, r.Offset, nil}, Bytes: len(r.Value)}
	p, err := deadletter.Parse(r)
	switch {
	case err != nil:
		if l.other++; l.filters() {
			return nil
		}
		line.Error = err.Error()
	case !l.wants(p):
		l.filtered++
		return nil
	default:
		line.letter, line.Whole = p, p.Whole
		l.reasons[p.Reason]++
		if p.Truncated {
			l.truncated++
		}
	}
	if !r.Time.IsZero() {
		line.Letter.Time = &r.Time
	}
	if l.values {
		line.Value = (*textOrBytes)(&r.Value)
		if r.Key != nil {
			line.Key = (*textOrBytes)(&r.Key)
		}
	}
	if l.json {
		return json.NewEncoder(w).Encode(&line)
	}
	_, err = io.WriteString(w, line.text())
	return err
}

// text returns the line for people.
func (l *letterLine) text() string {
	s := fmt.Sprintf("%s/%d offset %d: ", l.Letter.Topic, l.Letter.Partition, l.Letter.Offset)
	if p := l.letter; p == nil {
		s += fmt.Sprintf("no dead letter (%d bytes)\n", l.Bytes)
	} else {
		s += fmt.Sprintf("%s/%d offset %d: %s (%s): %s [", cli.Printable(p.Topic), p.Partition, p.Offset, cli.Printable(p.Reason), cli.Printable(p.Stage), cli.Printable(p.Message))
		if p.Truncated {
			s += fmt.Sprintf("TRUNCATED: %d of ", l.Bytes)
		}
		s += fmt.Sprintf("%d bytes", cmp.Or(p.Whole, int64(l.Bytes)))
		if p.Timestamp > 0 {
			s += " of " + time.UnixMilli(p.Timestamp).UTC().Format(time.RFC3339)
		}
		if l.Letter.Time != nil {
			s += ", sent " + l.Letter.Time.UTC().Format(time.RFC3339)
		}
		s += "]\n"
	}
	if l.Key != nil {
		s += fmt.Sprintf("    key   %q\n", []byte(*l.Key))
	}
	if l.Value != nil {
		s += fmt.Sprintf("    value %q\n", []byte(*l.Value))
	}
	return s
}

// summary counts the letters by reason, the most frequent first.
func (l *letterList) summary() string {
	total := 0
	var reasons []string
	for _, name := range slices.SortedFunc(maps.Keys(l.reasons), func(a, b string) int { return cmp.Or(l.reasons[b]-l.reasons[a], cmp.Compare(a, b)) }) {
		total += l.reasons[name]
		reasons = append(reasons, fmt.Sprintf("%s %d", cli.Printable(name), l.reasons[name]))
	}
	s := l.total(total)
	if total > 0 {
		s += ": " + strings.Join(reasons, ", ")
	}
	return s + some(l.truncated, "; truncated %d") + some(l.filtered, "; skipped by the filter %d") + some(l.other, "; records that are no dead letters %d")
}

// total describes the number of letters.
func (o *letterFlags) total(n int) string {
	return fmt.Sprintf("%d dead letter%s in %s", n, map[bool]string{false: "s"}[n == 1], strings.Join(o.letters, ", "))
}

// some writes a count unless it is 0.
func some(n int, format string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}
