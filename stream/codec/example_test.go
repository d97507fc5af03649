package codec_test

import (
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

func Example() {
	in, err := codec.New("libsvm", codec.Options{Labels: "01"})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := codec.New("json", codec.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ex stream.Example
	for _, line := range []string{"1 3:0.5 7:1.25", "0 1:2", "? 4:1", "2 1:1", "1 17:nan"} {
		if err := in.Decode([]byte(line), &ex); err != nil {
			var fe *stream.FieldError
			fmt.Println(errors.As(err, &fe), err)
			continue
		}
		value, err := out.Append(nil, &ex)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(string(value))
	}
	// Output:
	// {"x":{"3":0.5,"7":1.25},"y":1}
	// {"x":{"1":2},"y":-1}
	// {"x":{"4":1}}
	// true label, y: the label is 2, want 0 or 1
	// true feature, feature 17: the value is "nan"
}
