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

	reasons           map[string]int // letters listed, by reason
	truncated         int
	filteredOut, none int // letters skipped, records that are no letters
}

func (l *letterList) define(f *cli.Flags) {
	f.Group("List", func() {
		f.BoolVar(&l.json, "json", false, "print JSON")
		f.BoolVar(&l.values, "values", false, "print the record's key and value, too")
	})
}

// letterLine is what dlq list --json prints.
type letterLine struct {
	// Letter is where it lies, and when it was sent.
	Letter struct {
		Topic     string     `json:"topic"`
		Partition int32      `json:"partition"`
		Offset    int64      `json:"offset"`
		Time      *time.Time `json:"time"`
	} `json:"letter"`
	*about
	// Error says why the record is no letter.
	Error string `json:"error,omitempty"`
	// Bytes is the length of the value that the letter holds, Whole that of the
	// record, if it was truncated.
	Bytes int          `json:"bytes"`
	Whole int64        `json:"whole_bytes,omitempty"`
	Key   *textOrBytes `json:"key,omitempty"`
	Value *textOrBytes `json:"value,omitempty"`
}

// about is what the headers of a letter say.
type about = deadletter.Letter

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
	for {
		if recs, err = src.Fetch(ctx, recs[:0]); err != nil {
			break
		}
		for i := range recs {
			if err := l.show(out, &recs[i]); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if !errors.Is(err, io.EOF) {
		return l.ended(ctx, err)
	}
	if l.json {
		if !l.c.Quiet {
			fmt.Fprintln(l.c.Err, l.summary())
		}
		return nil
	}
	_, err = fmt.Fprintln(l.c.Out, l.summary())
	return err
}

// show prints a letter unless it is skipped.
func (l *letterList) show(w io.Writer, r *stream.Record) error {
	var line letterLine
	p, err := deadletter.Parse(r)
	switch {
	case err != nil:
		if l.none++; l.filtered() {
			return nil
		}
		line.Error = err.Error()
	case !l.wants(p):
		l.filteredOut++
		return nil
	default:
		line.about = p
		l.reasons[p.Reason]++
		if p.Truncated {
			l.truncated++
		}
	}
	if !l.json {
		return l.print(w, r, p)
	}
	line.Letter.Topic, line.Letter.Partition, line.Letter.Offset, line.Bytes = r.Topic, r.Partition, r.Offset, len(r.Value)
	if p != nil {
		line.Whole = p.Whole
	}
	if !r.Time.IsZero() {
		line.Letter.Time = &r.Time
	}
	if l.values {
		if r.Key != nil {
			line.Key = (*textOrBytes)(&r.Key)
		}
		line.Value = (*textOrBytes)(&r.Value)
	}
	return json.NewEncoder(w).Encode(&line)
}

// print prints a record in a line; p is nil if it is no letter.
func (l *letterList) print(w io.Writer, r *stream.Record, p *deadletter.Letter) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d offset %d: ", r.Topic, r.Partition, r.Offset)
	if p == nil {
		fmt.Fprintf(&b, "no dead letter (%d bytes)\n", len(r.Value))
	} else {
		fmt.Fprintf(&b, "%s/%d offset %d: %s (%s): %s [", printable(p.Topic), p.Partition, p.Offset, printable(p.Reason), printable(p.Stage), printable(p.Message))
		if p.Truncated {
			fmt.Fprintf(&b, "TRUNCATED: %d of ", len(r.Value))
		}
		fmt.Fprintf(&b, "%d bytes", cmp.Or(p.Whole, int64(len(r.Value))))
		if p.Timestamp > 0 {
			fmt.Fprintf(&b, " of %s", time.UnixMilli(p.Timestamp).UTC().Format(time.RFC3339))
		}
		fmt.Fprintf(&b, ", sent %s]\n", r.Time.UTC().Format(time.RFC3339))
	}
	if l.values {
		if r.Key != nil {
			fmt.Fprintf(&b, "    key   %q\n", r.Key)
		}
		fmt.Fprintf(&b, "    value %q\n", r.Value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary counts the letters by reason, the most frequent first.
func (l *letterList) summary() string {
	names := slices.SortedFunc(maps.Keys(l.reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.reasons[b], l.reasons[a]), cmp.Compare(a, b))
	})
	total := 0
	var parts []string
	for _, n := range names {
		total += l.reasons[n]
		parts = append(parts, fmt.Sprintf("%s %d", printable(n), l.reasons[n]))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s", plural(total, "dead letter"), strings.Join(l.letters, ", "))
	if total > 0 {
		fmt.Fprintf(&b, ": %s", strings.Join(parts, ", "))
	}
	some(&b, l.truncated, "; truncated %d")
	some(&b, l.filteredOut, "; skipped by the filter %d")
	some(&b, l.none, "; records that are no dead letters %d")
	return b.String()
}

// some adds a count to a summary if it is not 0.
func some(b *strings.Builder, n int, format string) {
	if n > 0 {
		fmt.Fprintf(b, format, n)
	}
}

// plural is "1 letter" or "2 letters".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
