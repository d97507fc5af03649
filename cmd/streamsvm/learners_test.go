package main

import (
	"path/filepath"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
)

// TestLearnersOnABroker takes a learner with each kind of model, for every task
// that it has, through the broker: learned from a topic of three partitions,
// with checkpoints; published, with deltas; taken up by a subscriber and by a
// predictor that follows the topic; and compared with a replay of the recording.
// What differs between learners of one kind is tested in algos/registry.
func TestLearnersOnABroker(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	names := map[algos.Task]string{algos.Classify: "moons", algos.Regress: "friedman"}
	topics, tests := map[algos.Task]string{}, map[algos.Task]string{}
	for task, name := range names {
		topics[task], tests[task] = c.name(), filepath.Join(dir, name+".libsvm")
		c.run("generate", name, "--count", "400", "--topic", topics[task], "--partitions", "3", "-q")
		must(t, "generate", name, "--count", "100", "--skip", "400", "--out", tests[task], "-q")
	}
	for _, name := range []string{"adaptive", "scs", "online", "tsgs3vm"} {
		spec, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range spec.Tasks {
			t.Run(spec.Name+"/"+string(task), func(t *testing.T) {
				c := &cluster{t, c.brokers}
				models, dir := c.name(), t.TempDir()
				state, recording, saved := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr"), filepath.Join(dir, "models")
				how := cheap(spec, task)
				c.run(append([]string{"train", "--topics", topics[task], "--merge", "ordered", "--until-end", "--model-topic", models,
					"--checkpoint", state, "--checkpoint-every", "90", "--record", recording}, how...)...)

				s := newest(t, state)
				if m := s.Meta; m["learned"] != "400" || m["pending"] != "0" {
					t.Errorf("the last checkpoint says %+v", m)
				}
				again := filepath.Join(dir, "again.ssm")
				r := decode[result](t, must(t, append([]string{"replay", recording, "--model", again, "--json", "-"}, how...)...))
				if r.StateHash != s.StateHash {
					t.Errorf("state %s from the topic, %s from its recording", s.StateHash, r.StateHash)
				}

				u := decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--until", "1", "--json", "--save", saved))
				if u.Version != s.ModelVersion || u.Learner != spec.Name || u.Examples != 400 {
					t.Errorf("the subscriber got %+v, the checkpoint says version %d", u, s.ModelVersion)
				}
				want := must(t, "predict", "--model", again, "--output", "decision", "-q", tests[task])
				if got := must(t, "predict", "--model", filepath.Join(saved, "model.ssm"), "--output", "decision", "-q", tests[task]); got != want {
					t.Error("decisions with the subscriber's model and with that of the replay differ")
				}
				if got := c.run("predict", "--model-topic", models, "--output", "decision", "-q", tests[task]); got != want {
					t.Error("decisions with the model of the topic and with that of the replay differ")
				}
				if m := published(t, c, models); m.Newest == nil {
					t.Error("the model topic is empty")
				}
			})
		}
	}
}

// cheap are the flags with which a learner has little to do.
func cheap(spec algos.Spec, task algos.Task) []string {
	how := []string{"--learner", spec.Name, "--task", string(task), "--tune=off", "--warmup", "200", "-q"}
	if spec.Kind == algos.Features {
		how = append(how, "--set", "features=256")
	}
	if spec.Kind == algos.Features && spec.Name != "lssvm" {
		how = append(how, "--set", "labels=100")
	}
	return how
}
