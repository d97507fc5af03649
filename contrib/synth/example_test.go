package synth_test

import (
	"fmt"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/stream"
)

func ExampleNew() {
	g, err := synth.New("sea", 1, map[string]string{"noise": "0", "block": "1000"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ex stream.Example
	for range 3 {
		g.Next(&ex)
		fmt.Println(ex.Seq, ex.X.Val, ex.Y)
	}
	// Output:
	// 1 [3.5721724 6.9657264 4.6115956] -1
	// 2 [3.2566195 3.3552067 1.2251905] 1
	// 3 [8.250746 4.3558273 8.3413] -1
}
