package modeltopic

import (
	"fmt"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// BenchmarkPublish is the time until a full is durable.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{50_000, 5_000_000} {
		b.Run(fmt.Sprintf("%dkB", size/1000), func(b *testing.B) {
			brokers := kafkatest.Brokers(b)
			p := publisher(b, PublisherOptions{Config: config(brokers), Topic: kafkatest.Name(b, brokers), Model: "m"})
			u := update("m", 1, 1, size)
			publish(b, p, u) // what comes first only once
			b.SetBytes(int64(size))
			for b.Loop() {
				u.Version++
				publish(b, p, u)
			}
		})
	}
}
