package status

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/course"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Serving remembers what the page of a service that predicts shows. Its methods
// may be called at the same time, after Begin.
type Serving struct {
	version, where string
	began          time.Time
	decoder        func() stream.Decoder // may return nil
	course         course.Course
	board          Board

	mu              sync.Mutex
	quality         *eval.Prequential // nil before there is a model
	classes         []string
	current         *predictor.Version
	models          []event
	scored, refused uint64
	marks           []served // at least rateOver apart
}

// served is how many records had been asked about at a time.
type served struct {
	at      time.Time
	records uint64
}

// Begin says which program serves from now on, and what is scored; decoder returns
// what reads it, nil while that is not known.
func (s *Serving) Begin(version, where string, decoder func() stream.Decoder) {
	s.version, s.where, s.decoder, s.began = version, where, decoder, time.Now()
}

// Show has the page show the aliases of a board. It is called before the page is
// asked for.
func (s *Serving) Show(b Board) { s.board = b }

// Updated is told of each version that is taken into use, and of its encoded
// form.
func (s *Serving) Updated(v *predictor.Version, data []byte) {
	u := v.Update
	u.Payload = data
	s.course.Published(&u, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = v
	if u.Version != 0 { // not a model in a file
		s.models = newest(s.models, u.Created, count(u.Version), count(u.Examples), string(u.Kind), count(uint64(len(data))))
	}
}

// Measured says where the measures of predictions are, which only change in the
// calls of Compare, and what the labels are called.
func (s *Serving) Measured(q *eval.Prequential, classes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quality, s.classes = q, classes
}

// Compare calls add, which changes the measures.
func (s *Serving) Compare(add func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add()
	if s.quality != nil {
		fields, events, _ := codec.FieldCounts(s.decoder())
		s.course.Scored(s.quality, s.classes, fields, events)
	}
}

// Scored is told how many records have been scored, and how many could not be.
func (s *Serving) Scored(scored, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scored += uint64(scored)
	s.refused += uint64(refused)
	s.mark()
}

// mark remembers how many records there were, if the last time is long enough
// ago.
func (s *Serving) mark() {
	now := time.Now()
	if n := len(s.marks); n > 0 && now.Sub(s.marks[n-1].at) < rateOver {
		return
	}
	s.marks = append(s.marks, served{now, s.scored + s.refused})
	s.marks = s.marks[max(0, len(s.marks)-maxMarks):]
}

// Page answers with the page.
func (s *Serving) Page(w http.ResponseWriter, q *http.Request) { s.page().write(w, q, &s.course) }

func (s *Serving) page() *page {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	p := &page{
		Title: "streamsvm predict", Version: s.version, Up: short(now.Sub(s.began)), Refresh: 5, State: "predicting", Where: s.where, board: s.board,
		NoCourse: "Nothing is known about how good the predictions are: no labels have come along.",
	}
	if s.current == nil {
		p.State = "waiting for the first model"
		return p
	}
	s.mark()
	u := &s.current.Update
	if u.Model != "" {
		p.Title += ": " + u.Model
		p.Tiles = append(p.Tiles, named{"model version", count(u.Version)}, named{"since it was made", short(now.Sub(u.Created))})
	}
	p.Tiles = append(p.Tiles, named{"records scored", count(s.scored)}, named{"that could not be", count(s.refused)})
	state := &course.Now{}
	state.Fields, state.Events, _ = codec.FieldCounts(s.decoder())
	if s.quality != nil && s.quality.Examples() > 0 {
		state.Summary, state.Scored, state.Classes = s.quality.Summary(), s.quality.Examples(), s.classes
		state.Summary.Name(s.classes)
		p.Tiles = append(p.Tiles, scores(state)...)
	}
	if m, ok := s.current.Model().(*model.Linear); ok && s.current.HashDim() == 0 {
		state.Linear(m, s.current.Signature().Schema)
	}
	p.Course, p.Quality = s.course.Charts(state), state.Tables()
	p.Models = chart.Table{Title: "Model versions", Head: []string{"version", "age", "examples", "form", "bytes"}, Rows: ages(now, s.models, 1)}
	p.Pace = s.pace()
	p.Service = []chart.Table{s.model()}
	return p
}

// pace returns the chart of the rate, over the last hour.
func (s *Serving) pace() []chart.Chart {
	rate := chart.Series{Name: "records/s"}
	for i := 1; i < len(s.marks); i++ {
		m, was := s.marks[i], s.marks[i-1]
		rate.X = append(rate.X, float64(m.at.UnixMilli())/1000)
		rate.Y = append(rate.Y, eval.Number(float64(m.records-was.records)/m.at.Sub(was.at).Seconds()))
	}
	if len(rate.X) == 0 {
		return nil
	}
	return []chart.Chart{{Title: "Records asked about", X: chart.Axis{Time: true}, Y: chart.Axis{Label: rate.Name, Zero: true}, Series: []chart.Series{rate}}}
}

// model lists what is known about the model.
func (s *Serving) model() chart.Table {
	info := s.current.Info()
	t := chart.Table{Title: "Model", Rows: [][]string{
		{"learner", s.current.Learner()}, {"model", info.Text}, {"features", count(uint64(max(info.Dim, 0)))}, {"preprocessing", s.current.Preprocessing()},
	}}
	if info.Support > 0 {
		t.Rows = append(t.Rows, []string{"support vectors", count(uint64(info.Support))})
	}
	options := s.current.Options()
	var set []string
	for _, k := range slices.Sorted(maps.Keys(options)) {
		set = append(set, k+"="+options[k])
	}
	if len(set) > 0 {
		t.Rows = append(t.Rows, []string{"options", strings.Join(set, " ")})
	}
	return t
}
