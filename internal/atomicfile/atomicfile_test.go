package atomicfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A device or a pipe stays what it is and gets the data; a file is replaced.
func TestWrite(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := os.Symlink(filepath.Join("/dev/fd", fmt.Sprint(w.Fd())), pipe); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(pipe); err != nil {
		t.Skip("no /dev/fd on this system")
	}
	if err := Write(pipe, []byte("to a pipe")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := io.ReadAll(r); string(got) != "to a pipe" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("replaced: %v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	for _, want := range []string{"long text", "short"} {
		if err := Write(file, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); string(got) != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files left behind: %v, %v", entries, err)
	}
}
