package trainer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestOwnLearner tests the learner in examples/ownlearner, a module of its own:
// whatever it needs can be used from outside this one. The sums are those of
// this module, and nothing is downloaded.
func TestOwnLearner(t *testing.T) {
	dir, tmp := filepath.Join("..", "examples", "ownlearner"), t.TempDir()
	for to, from := range map[string]string{"go.mod": filepath.Join(dir, "go.mod"), "go.sum": filepath.Join("..", "go.sum")} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(tmp, to), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-modfile="+filepath.Join(tmp, "go.mod"), "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
