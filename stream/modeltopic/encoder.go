package modeltopic

import (
	"crypto/ed25519"
	"fmt"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/stream"
)

// encoder encodes the records of one model or alias.
type encoder struct {
	topic, model string
	partition    int32
	recordBytes  int // bound of a record
	deltaRing    int // slots for deltas
	key          ed25519.PrivateKey
}

// newEncoder chooses the partition, given the number of them. Subscribers read all
// partitions, so it does not matter if some are added later.
func newEncoder(topic, model string, partitions, recordBytes int) encoder {
	e := encoder{topic: topic, model: model, recordBytes: recordBytes, deltaRing: DefaultDeltaRing}
	if partitions > 1 {
		e.partition = int32(xxhash.Sum64String(model) % uint64(partitions))
	}
	return e
}

func (c *encoder) record(key string, value []byte, at time.Time) stream.Record {
	return stream.Record{
		Topic: c.topic, Partition: c.partition, Time: at, Key: []byte(c.model + "/" + key), Value: value,
		Headers: []stream.Header{{Key: headerType, Value: []byte(contentType)}, {Key: headerVersion, Value: []byte(strconv.Itoa(formatVersion))}},
	}
}

// claim returns the record of a claim.
func (c *encoder) claim(n Claim) (stream.Record, error) {
	e := envelope{Update: stream.Update{Kind: claim, Model: c.model, Epoch: n.Epoch, Created: n.At}, owner: n.Owner, by: n.By}
	value, err := e.encode()
	return c.record("claim", value, n.At), err
}

// update returns the chunks of an update; the first one also gets the given headers.
func (c *encoder) update(u *stream.Update, headers ...stream.Header) ([]stream.Record, error) {
	if len(u.Payload) > maxPayload {
		return nil, fmt.Errorf("kafka: model %s version %d has %d bytes, more than the limit of %d", u.Model, u.Version, len(u.Payload), maxPayload)
	}
	if sum := xxhash.Sum64(u.Payload); u.Hash != sum {
		return nil, fmt.Errorf("kafka: model %s version %d: the payload's hash is %016x, not %016x", u.Model, u.Version, sum, u.Hash)
	}
	e := envelope{Update: *u, size: uint64(len(u.Payload)), chunks: 1 << 30, chunk: 1 << 30, chunkHash: 1 << 63}
	head, err := e.encode()
	if err != nil {
		return nil, err
	}
	if c.key != nil {
		signature, err := e.sign(u.Payload, c.key)
		if err != nil {
			return nil, err
		}
		headers = append(headers, stream.Header{Key: headerSignature, Value: []byte(signature)})
	}
	// Besides the envelope, a record has its key, headers and a few lengths, and
	// the batch around it has a header.
	room := c.recordBytes - len(head) - len(c.model) - 256
	for _, h := range headers {
		room -= len(h.Key) + len(h.Value) + 8
	}
	if room < 1 {
		return nil, fmt.Errorf("kafka: model %s: records of %d bytes leave no room for the payload", u.Model, c.recordBytes)
	}
	e.chunks = uint64(max(1, (len(u.Payload)+room-1)/room))
	recs := make([]stream.Record, e.chunks)
	for i := range recs {
		e.chunk = uint64(i)
		e.data = u.Payload[i*room : min((i+1)*room, len(u.Payload))]
		e.chunkHash = xxhash.Sum64(e.data)
		value, err := e.encode()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if _, err := decodeEnvelope(value, maxPayload); err != nil {
				return nil, fmt.Errorf("kafka: model %s version %d cannot be published: %w", u.Model, u.Version, err)
			}
		}
		key := fmt.Sprintf("full/%d", i)
		if u.Kind == stream.Delta {
			key = fmt.Sprintf("delta/%d", u.Version%uint64(c.deltaRing))
			if i > 0 {
				key = fmt.Sprintf("%s/%d", key, i)
			}
		}
		recs[i] = c.record(key, value, u.Created)
	}
	recs[0].Headers = append(recs[0].Headers, headers...)
	return recs, nil
}

// replaced returns the key prefixes of the records that a full replaces: all fulls, and
// all updates of versions of the program that made no claims.
func (c *encoder) replaced() []string {
	return []string{c.model + "/full/", c.model + "/f/", c.model + "/d/"}
}
