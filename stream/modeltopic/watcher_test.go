package modeltopic

import (
	"slices"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

func TestWatcher(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 2, nil) // all records stay
	o := AliasOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000}
	p := promoter(t, o)
	o.Model = "mm"
	foreign := promoter(t, o)
	w := NewWatcher(ReadOptions{Config: config(brokers), Topic: topic, Model: "m"})
	look := func(want ...Move) {
		t.Helper()
		// A broker answers the end of a transaction a moment before a reader of
		// committed records sees it.
		var got []Move
		for end := time.Now().Add(10 * time.Second); len(got) < len(want) && time.Now().Before(end); {
			moves, err := w.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range moves {
				if m.At.IsZero() || m.Examples != 100*m.Version {
					t.Errorf("%+v", m)
				}
				m.At, m.Examples = time.Time{}, 0
				got = append(got, m)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	one, two := update("m", 1, 1, 3000), update("m", 1, 2, 5000)
	promote(t, foreign, update("mm", 1, 9, 100), stream.Promotion{})
	promote(t, p, one, stream.Promotion{By: "me"})
	promote(t, p, two, stream.Promotion{By: "you", Reason: "better"})
	look(Move{Alias: "champion", Version: 1, Promotion: stream.Promotion{By: "me"}},
		Move{Alias: "champion", Version: 2, Promotion: stream.Promotion{By: "you", Reason: "better", Previous: 1}})
	if _, err := p.Rollback(t.Context(), stream.Promotion{By: "me"}); err != nil {
		t.Fatal(err)
	}
	look(Move{Alias: "champion", Version: 1, Promotion: stream.Promotion{By: "me", Previous: 2}})
	if moves, err := w.Look(t.Context()); err != nil || len(moves) > 0 {
		t.Errorf("%+v, %v", moves, err)
	}
}
