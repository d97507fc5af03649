package trainer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// Train on a Kafka topic: with checkpoints, after a crash at any moment it goes
// on as if nothing had happened, and each checkpoint's model is published to a
// model topic, which services follow.
func ExampleRun() {
	brokers, dir, stop := moonsTopic() // stands for your Kafka, with examples in JSON, and a disk
	defer stop()

	ctx := context.Background() // in a service: signal.NotifyContext
	res, err := trainer.Run(ctx, trainer.Job{
		Options: trainer.Options{Seed: 1},
		Kafka: kafkaio.SourceOptions{
			Config:   kafkaio.Config{Brokers: brokers},
			Topics:   []string{"moons"},
			UntilEnd: true, // a service leaves this out and runs until ctx ends
		},
		Checkpoints: trainer.Checkpoints{Dir: filepath.Join(dir, "state")},
		Models:      trainer.Models{Topic: "models"},
	})
	if err != nil {
		log.Fatal(err)
	}
	n := res.Counts()
	fmt.Println(n.Consumed, "records,", n.Learned, "learned,", n.Dead, "of no use; model version", res.Version)
	// Output: 2000 records, 2000 learned, 0 of no use; model version 1
}

// Train on a slice. The features are scaled, and options that are not given are
// tuned, on the first examples.
func ExampleFit() {
	examples := moons(3000)
	train, test := examples[:2000], examples[2000:]
	fit, err := trainer.Fit(context.Background(), train, trainer.Options{
		Learner: "scs",
		Set:     map[string]string{"kernel": "rbf"},
		Scale:   trainer.ScaleStandard,
		Seed:    1,
	})
	if err != nil {
		log.Fatal(err)
	}
	model, err := fit.Predictor()
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(os.TempDir(), "moons.ssm")
	defer os.Remove(path)
	if err := model.Save(path); err != nil {
		log.Fatal(err)
	}

	// Anywhere else:
	model, err = predictor.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	right := 0
	for _, x := range test {
		if model.Predict(x.X) == x.Y {
			right++
		}
	}
	fmt.Println(right > 950, model.Predict(stream.Vec{Val: []float32{0, 1}}))
	// Output: true 1
}
