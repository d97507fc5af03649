package kafkaio

import "testing"

// Partition 0 is one like the others; a topic has the number -1.
func TestUnknownTopicSays(t *testing.T) {
	for partition, want := range map[int32]string{
		-1: "kafka: topic t does not exist", 0: "kafka: topic t has no partition 0", 7: "kafka: topic t has no partition 7",
	} {
		if got := (&UnknownTopicError{Topic: "t", Partition: partition}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
