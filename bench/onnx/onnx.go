// Onnx times predictions of models, on one processor, with rows that a file
// holds, for bench/onnx.py to compare with:
//
//	go run -C bench ./onnx ROWS MODEL.ssm…
//
// ROWS holds float32, little-endian, as many for each row as the model has
// features. A line for each model: milliseconds to load it, rows a second in one
// block, and one at a time.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"runtime"
	"time"

	_ "github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

func main() {
	runtime.GOMAXPROCS(1)
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range os.Args[2:] {
		start := time.Now()
		p, err := predictor.Load(path)
		if err != nil {
			log.Fatal(err)
		}
		p = p.Compile()
		load := time.Since(start)
		d := p.Signature().Dim
		var xs []stream.Vec
		for i := 0; i+4*d <= len(data); i += 4 * d {
			x := make([]float32, d)
			for j := range x {
				x[j] = math.Float32frombits(binary.LittleEndian.Uint32(data[i+4*j:]))
			}
			xs = append(xs, stream.Vec{Val: x})
		}
		dst := make([]float64, len(xs))
		block := rate(len(xs), func() { p.Decisions(dst, xs) })
		single := rate(100, func() {
			for i := range 100 {
				dst[i] = p.Decision(xs[i])
			}
		})
		fmt.Println(float64(load.Microseconds())/1000, block, single)
	}
}

// rate returns the best of runs of a second, of n rows each.
func rate(n int, f func()) float64 {
	best := 0.
	for start := time.Now(); time.Since(start) < time.Second; {
		one := time.Now()
		f()
		best = max(best, float64(n)/time.Since(one).Seconds())
	}
	return best
}
