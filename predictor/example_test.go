package predictor_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// Score records as they come, here events in JSON, with a model that train or
// replay has written.
func ExampleScorer() {
	model, remove := fraudModel() // stands for streamsvm replay payments.jsonl --label fraud --model fraud.ssm
	defer remove()

	s, err := predictor.Open(context.Background(), predictor.ScorerOptions{File: model})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	// Anywhere in the service, from any goroutine:
	p, err := s.Score([]byte(`{"amount":120,"country":"BR","hour":3}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Label, p.Probability > 0.9)
	// Output: true true
}

// Follow a model topic inside a service of one's own. Scores are always those of
// the newest version; a new one takes its place between two calls.
func ExampleOpen() {
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
	s, err := predictor.Open(ctx, predictor.ScorerOptions{Models: sub})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	// Anywhere in the service, from any goroutine:
	p, err := s.Score([]byte(`{"x":[0.5,-0.5]}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Model, "version", p.Version, "says", p.Label)
	// Output: clicks version 1 says -1
}
