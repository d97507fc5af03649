package modeltopic

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/remind"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream"
)

// NoModelError says that a topic holds no complete model of the wanted name, and that
// none has come within the time to wait.
type NoModelError struct {
	Topic string
	Model string // empty is any
	// Waited is the time since the end of the topic was reached, or since the last
	// chunk of the model came.
	Waited time.Duration
	// Holds describes the contents of the topic.
	Holds string
	// Models are the names of the models in it, sorted.
	Models []string
}

func (e *NoModelError) Error() string {
	return fmt.Sprintf("kafka: %s, and no complete model has come in %v", e.Holds, e.Waited)
}

// waiting collects the contents of a topic until a model is found.
type waiting struct {
	topic, model, alias string
	wait                time.Duration
	log                 *slog.Logger

	since    time.Time // when the end was reached, or the last chunk of the model came
	reminder remind.Reminder
	records  uint64
	none     uint64              // records of no model
	first    string              // describes the first such record
	pieces   uint64              // records of the model
	claimed  *envelope           // the newest claim on it
	refused  error               // why an update's signature was refused
	names    map[string]struct{} // of models
}

// namesMax bounds the names that are kept, namesShown those in a message.
const namesMax, namesShown = 10_000, 10

// saw counts a record; e is nil if it is not of a model.
func (w *waiting) saw(r *stream.Record, e *envelope) {
	w.records++
	switch {
	case r.Value == nil:
	case e == nil:
		if w.none++; w.none == 1 {
			w.first = fmt.Sprintf("the first one (partition %d, offset %d) %s", r.Partition, r.Offset, looks(r))
		}
	default:
		if w.names == nil {
			w.names = map[string]struct{}{}
		}
		if len(w.names) < namesMax {
			w.names[e.Model] = struct{}{}
		}
		switch {
		case !follows(w.model, w.alias, e.Model):
		case e.Kind == claim:
			if w.claimed = e; e.owner == "" { // given up
				w.claimed = nil
			}
		default:
			w.pieces++
			if !w.since.IsZero() {
				w.since = time.Now()
			}
		}
	}
}

// look returns the time until it should be called again, and logs a reminder if one is
// due. It fails once the time to wait is over.
func (w *waiting) look(now time.Time, atEnd bool) (time.Duration, error) {
	if w.since.IsZero() {
		if !atEnd {
			return 100 * time.Millisecond, nil // the end may be reached without a record
		}
		w.since = now
	}
	waited := now.Sub(w.since)
	if w.wait >= 0 && waited >= w.wait {
		return 0, &NoModelError{Topic: w.topic, Model: w.model, Waited: w.wait, Holds: w.holds(), Models: slices.Sorted(maps.Keys(w.names))}
	}
	if w.reminder.Due(now) {
		attrs := []any{"for", waited.Round(time.Second)}
		if w.wait >= 0 {
			attrs = append(attrs, "at_most", w.wait)
		}
		w.log.Warn("kafka: "+w.holds()+": waiting for "+w.what(), attrs...)
	}
	left := w.reminder.Next().Sub(now)
	if w.wait >= 0 {
		left = min(left, w.wait-waited)
	}
	return left, nil
}

// holds describes the contents of the topic.
func (w *waiting) holds() string {
	var s string
	switch {
	case w.refused != nil:
		s = fmt.Sprintf("topic %s holds no %s that is trusted, but %s of one: %v", w.topic, w.what(), spell.Count(w.pieces, "record"), w.refused)
	case w.pieces > 0:
		s = fmt.Sprintf("topic %s holds no complete %s, but %s of one", w.topic, w.what(), spell.Count(w.pieces, "record"))
	case w.claimed != nil:
		s = fmt.Sprintf("topic %s holds no version of model %s yet: a trainer (%s) has claimed it at %s and has not published one",
			w.topic, w.claimed.Model, w.claimed.by, w.claimed.Created.Format(time.RFC3339))
	case len(w.names) > 0:
		s = fmt.Sprintf("topic %s holds no %s, but %s", w.topic, w.what(), w.known())
	case w.none > 0 && w.none == w.records:
		return fmt.Sprintf("topic %s holds %s, none of them of a model: %s", w.topic, spell.Count(w.records, "record"), w.first)
	case w.records > 0:
		s = fmt.Sprintf("topic %s holds %s, but no model", w.topic, spell.Count(w.records, "record"))
	default:
		return fmt.Sprintf("topic %s is empty", w.topic)
	}
	if w.none > 0 {
		s += fmt.Sprintf("; %s of no model: %s", spell.Count(w.none, "record"), w.first)
	}
	return s
}

// what names the wanted model.
func (w *waiting) what() string {
	if w.model == "" && w.alias != "" {
		return "model with the alias " + w.alias
	}
	if w.model == "" {
		return "model"
	}
	return "model " + w.model
}

// known lists the models in the topic, the likeliest match first.
func (w *waiting) known() string {
	names := slices.Sorted(maps.Keys(w.names))
	meant := spell.DidYouMean(w.model, names)
	if near := spell.Nearest(w.model, names); near != "" {
		i := slices.Index(names, near)
		names = slices.Insert(slices.Delete(names, i, i+1), 0, near)
	}
	more := ""
	if n := len(names) - namesShown; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names[:min(len(names), namesShown)], ", ") + more + meant
}

// looks describes a record of no model.
func looks(r *stream.Record) string {
	for _, h := range r.Headers {
		if h.Key == headerType && string(h.Value) == contentType {
			return "says that it is, but is of another format version or damaged"
		}
	}
	if len(r.Value) > 40 {
		return fmt.Sprintf("has %d bytes and begins with %q", len(r.Value), r.Value[:40])
	}
	return fmt.Sprintf("is %q", r.Value)
}
