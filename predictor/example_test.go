package predictor_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// Follow a model topic inside a service of one's own. Current always answers
// with the newest version; a new one takes its place between two calls.
func ExampleFollow() {
	brokers, stop := publishedModel() // stands for your Kafka and a running streamsvm train
	defer stop()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sub, err := modeltopic.NewSubscriber(ctx, modeltopic.SubscriberOptions{
		Config:    kafkaio.Config{Brokers: brokers},
		Topic:     "models",
		TopicWait: time.Minute, // for the topic and a first model
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	live := predictor.Follow(ctx, sub, predictor.FollowOptions{})
	if _, err := live.Wait(ctx); err != nil {
		log.Fatal(err)
	}

	// Anywhere in the service, from any goroutine:
	model := live.Current()
	x := stream.Vec{Val: []float32{0.5, -0.5}}
	fmt.Println(model.Update.Model, "version", model.Update.Version, "says", model.Predict(x))
	// Output: clicks version 1 says -1
}
