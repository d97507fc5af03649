package fileio_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// Records are written to a recording and read back from where a consumer
// stopped.
func ExampleCreateRecording() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "clicks.ssr")
	w, err := fileio.CreateRecording(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for offset := range int64(4) {
		rec := stream.Record{Topic: "clicks", Offset: offset, Value: fmt.Appendf(nil, "+1 1:%d", offset)}
		if err := w.Write(&rec); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Close(true); err != nil {
		fmt.Println(err)
		return
	}

	src, err := fileio.Open([]string{path}, fileio.Options{
		Start: stream.Offsets{{Topic: "clicks"}: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer src.Close()
	var recs []stream.Record
	for {
		recs, err = src.Fetch(context.Background(), recs[:0])
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, rec := range recs {
			fmt.Println(rec.Offset, string(rec.Value))
		}
	}
	fmt.Println(src.Skipped(), "skipped")
	// Output:
	// 2 +1 1:2
	// 3 +1 1:3
	// 2 skipped
}
