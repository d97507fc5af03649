// Package sift defines what the command sift and the trainer must agree on: the headers
// of forwarded records, and the choice itself, which depends only on the record and its
// probability. Package contrib/scale/siftplan has the plans that give probabilities.
//
// A record is forwarded with probability p and then has weight 1/p, so that sums over
// the forwarded records estimate the sums over all without bias (Horvitz and Thompson
// 1952), whatever model has chosen p.
package sift

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/cespare/xxhash/v2"
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// The keys of the headers of a forwarded record.
const (
	HeaderKey = "__streamsvm.sift"
	SourceKey = "__streamsvm.source"
)

// LeastP is the smallest probability that a header may have.
const LeastP = 1e-3

// Header says with which probability, and by which model, a record was forwarded.
type Header struct {
	// P is the probability with which it was forwarded, from LeastP to 1.
	P float64
	// Decision is the model's decision on the record or, for more than two classes,
	// the margin that Least returns. It is 0 if Version is.
	Decision float64
	// Version and Epoch identify the model; 0 if there was none, or if the record
	// could not be decoded.
	Version, Epoch uint64
}

// Append appends the text of h, such as "1 p=0.05 f=-1.7305 v=12 e=3", to dst. Its
// first word is the version of the format.
func (h Header) Append(dst []byte) []byte {
	dst = strconv.AppendFloat(append(dst, "1 p="...), h.P, 'g', -1, 64)
	dst = strconv.AppendFloat(append(dst, " f="...), h.Decision, 'g', -1, 64)
	dst = strconv.AppendUint(append(dst, " v="...), h.Version, 10)
	return strconv.AppendUint(append(dst, " e="...), h.Epoch, 10)
}

// ParseHeader reads what Append writes.
func ParseHeader(text []byte) (h Header, err error) {
	words := bytes.Split(text, []byte{' '})
	if string(words[0]) != "1" {
		return h, fmt.Errorf("%.20q is not a known format of the header", words[0])
	}
	if len(words) != 5 {
		return h, fmt.Errorf("%d words, want 5 as in 1 p=0.05 f=-1.7305 v=12 e=3", len(words))
	}
	value := func(i int, name string) string {
		v, ok := bytes.CutPrefix(words[i], []byte(name+"="))
		if !ok && err == nil {
			err = fmt.Errorf("word %d is %.20q, want %s=", i+1, words[i], name)
		}
		return string(v)
	}
	p, f, v, e := value(1, "p"), value(2, "f"), value(3, "v"), value(4, "e")
	if err != nil {
		return h, err
	}
	if h.P, err = strconv.ParseFloat(p, 64); err != nil || !(h.P > 0 && h.P <= 1) {
		return Header{}, fmt.Errorf("p is %.20q, want a probability above 0 and at most 1", p)
	}
	if h.P < LeastP {
		return Header{}, fmt.Errorf("p is %s, the least that is allowed is %g", p, LeastP)
	}
	if h.Decision, err = strconv.ParseFloat(f, 64); err != nil || h.Decision-h.Decision != 0 {
		return Header{}, fmt.Errorf("f is %.20q, want a finite number", f)
	}
	if h.Version, err = strconv.ParseUint(v, 10, 64); err != nil {
		return Header{}, fmt.Errorf("v is %.20q, want a version", v)
	}
	if h.Epoch, err = strconv.ParseUint(e, 10, 64); err != nil {
		return Header{}, fmt.Errorf("e is %.20q, want an epoch", e)
	}
	return h, nil
}

// Of returns the header of a record, or ok false if there is none. Two of them are an
// error.
func Of(r *stream.Record) (h Header, ok bool, err error) {
	text, ok, err := one(r, HeaderKey)
	if !ok || err != nil {
		return h, ok, err
	}
	h, err = ParseHeader(text)
	return h, true, err
}

// Source is the position from which a record was forwarded.
type Source struct {
	Partition stream.Partition
	Offset    int64
}

// Append appends the text of s, such as "examples/3:123456", to dst.
func (s Source) Append(dst []byte) []byte {
	dst = append(append(dst, s.Partition.Topic...), '/')
	dst = append(strconv.AppendInt(dst, int64(s.Partition.ID), 10), ':')
	return strconv.AppendInt(dst, s.Offset, 10)
}

// ParseSource reads what Append writes.
func ParseSource(text []byte) (s Source, err error) {
	colon := bytes.LastIndexByte(text, ':')
	slash := bytes.LastIndexByte(text[:max(colon, 0)], '/')
	if slash < 1 {
		return s, fmt.Errorf("%.40q is not a position such as examples/3:123456", text)
	}
	id, err := strconv.ParseInt(string(text[slash+1:colon]), 10, 32)
	if err != nil || id < 0 {
		return s, fmt.Errorf("%.20q is not a partition", text[slash+1:colon])
	}
	offset, err := strconv.ParseInt(string(text[colon+1:]), 10, 64)
	if err != nil || offset < 0 || offset == math.MaxInt64 {
		return s, fmt.Errorf("%.20q is not an offset", text[colon+1:])
	}
	return Source{stream.Partition{Topic: string(text[:slash]), ID: int32(id)}, offset}, nil
}

// SourceOf returns the position from which a record was forwarded, or ok false if its
// headers name none.
func SourceOf(r *stream.Record) (s Source, ok bool, err error) {
	text, ok, err := one(r, SourceKey)
	if !ok || err != nil {
		return s, ok, err
	}
	s, err = ParseSource(text)
	return s, true, err
}

func one(r *stream.Record, key string) (value []byte, ok bool, err error) {
	for _, h := range r.Headers {
		if h.Key != key {
			continue
		}
		if ok {
			return nil, true, errors.New("the header comes twice")
		}
		value, ok = h.Value, true
	}
	return value, ok, nil
}

// NewTracker returns a Tracker without records. Package contrib/scale/siftplan sets it when
// it is imported; if it is nil, no plans are made.
var NewTracker func() Tracker

// Tracker estimates, from the forwarded records of a stream, how much of it is worth
// forwarding.
type Tracker interface {
	// Add adds an example of weight w. now is its margin just before it was learned from,
	// seen its margin when it was forwarded, NaN if there was no model.
	Add(now, seen, w float64)
	// Note adds the position from which a record was forwarded, and Positions returns the
	// positions after all of them.
	Note(p stream.Partition, offset int64)
	Positions() stream.Offsets
	// Next returns the share of the stream to request after the current one, budget; 0
	// sets no bound. See siftplan.
	Next(budget, excess float64, catchesUp bool) float64
	// Measures returns, as measures, the plan that forwards at most the share budget of
	// the stream; 0 and 1 set no bound.
	Measures(budget float64) []stream.Measure
	Fields(f *state.Fields)
}

// Least returns the margin of a record with more than two classes: the least margin
// of the machines of each class against the rest. class is the record's class;
// negative means that the label is unknown, and the class with the largest score is
// used.
func Least(scores []float64, class int) float64 {
	if class < 0 && len(scores) > 0 {
		class = slices.Index(scores, slices.Max(scores))
	}
	least := math.Inf(1)
	for k, f := range scores {
		if k != class {
			f = -f
		}
		least = min(least, f)
	}
	return least
}

// Forward reports whether the record at a position is forwarded with probability p. It
// is deterministic.
func Forward(at Source, seed uint64, p float64) bool { return draw(at, seed) < p }

// draw returns a number in [0,1) that depends only on the position and the seed.
func draw(at Source, seed uint64) float64 {
	b := make([]byte, 0, 64)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = append(b, at.Partition.Topic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Partition.ID))
	b = binary.LittleEndian.AppendUint64(b, uint64(at.Offset))
	return float64(xxhash.Sum64(b)>>11) * 0x1p-53
}
