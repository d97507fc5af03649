package codec

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// twelve returns an event with twelve fields and a label.
func twelve(rng *rand.Rand, i int) []byte {
	pick := func(list ...string) string { return list[rng.Intn(len(list))] }
	return fmt.Appendf(nil, `{"transaction_id":"t-%08d","amount":%.2f,"country":%q,"merchant":"m%d","hour":%d,"card_present":%v,"age":%d,`+
		`"balance":%.2f,"channel":%q,"device":%q,"attempts":%d,"score":%.4f,"is_fraud":%v}`,
		i, rng.ExpFloat64()*50, pick("DE", "FR", "US", "BR", "CN"), rng.Intn(40), rng.Intn(24), rng.Intn(2) == 0, 18+rng.Intn(60),
		rng.NormFloat64()*1000, pick("web", "app", "pos"), pick("ios", "android", "other"), rng.Intn(5), rng.Float64(), rng.Intn(20) == 0)
}

// BenchmarkEvents compares an event of twelve named fields on its way from bytes
// to features with encoding/json into a map, and with a vector of as many
// numbers.
func BenchmarkEvents(b *testing.B) {
	rng := rand.New(rand.NewSource(1))
	var values, vectors [][]byte
	d, err := NewDiscovery("json", Options{Labels: Auto, Events: Auto, Label: "is_fraud"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 4096 {
		values = append(values, twelve(rng, i))
		v := []byte(`{"x":[`)
		for k := range 12 {
			if k > 0 {
				v = append(v, ',')
			}
			v = fmt.Appendf(v, "%.4f", rng.NormFloat64())
		}
		vectors = append(vectors, append(v, `],"y":1}`...))
		if i < SampleSize {
			d.Look(values[i])
		}
	}
	o, err := d.Decide()
	if err != nil {
		b.Fatal(err)
	}
	events, err := d.Codec(o)
	if err != nil {
		b.Fatal(err)
	}
	plain, err := New("json", Options{})
	if err != nil {
		b.Fatal(err)
	}
	decode := func(c Codec, values [][]byte) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			var a stream.Arena
			var ex stream.Example
			for i := 0; b.Loop(); i++ {
				if i%512 == 0 {
					a.Reset()
				}
				if err := c.DecodeIn(&a, values[i%len(values)], &ex); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(values[0])), "bytes/value")
		}
	}
	b.Run("fields", decode(events, values))
	b.Run("vector", decode(plain, vectors))
	b.Run("map", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			m := map[string]any{}
			if err := json.Unmarshal(values[i%len(values)], &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
