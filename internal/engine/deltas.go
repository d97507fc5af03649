package engine

import (
	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/stream"
)

// deltas turns fulls into deltas on what was published before, where that is
// worth it. It keeps the payload published last.
type deltas struct {
	every int            // a full at least every so many updates
	base  *stream.Update // published last, as a full
	since int            // deltas since the last full
}

// next returns what to publish in place of u, a full: u itself, or the delta
// that makes it of the update before.
func (d *deltas) next(u *stream.Update) *stream.Update {
	if d.base == nil || d.since+1 >= d.every || d.base.Epoch != u.Epoch || d.base.Version >= u.Version {
		return u
	}
	patch := delta.Diff(d.base.Payload, u.Payload)
	if len(patch) > len(u.Payload)/2 {
		return u
	}
	p := *u
	p.Kind, p.Base, p.Payload, p.Hash = stream.Delta, d.base.Version, patch, xxhash.Sum64(patch)
	return &p
}

// published takes note that sent, which next made of u, is durable.
func (d *deltas) published(u, sent *stream.Update) {
	if d.every < 2 {
		return // or a payload would be kept for nothing
	}
	d.base, d.since = u, d.since+1
	if sent.Kind == stream.Full {
		d.since = 0
	}
}
