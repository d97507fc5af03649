package vec

import "os"

// A code is one of the implementations in this package.
type code uint8

const (
	generic code = iota
	avx2
	avx512
)

var codeNames = [...]string{"generic", "avx2", "avx512"}

func (c code) String() string { return codeNames[c] }

var active = choose(os.Getenv("STREAMSVM_VEC"), best())

// Code names the implementation in use: avx512, avx2 or generic.
func Code() string { return active.String() }

// choose returns the wanted code if the CPU can run it, otherwise the best one that
// the CPU can run.
func choose(want string, best code) code {
	for c := generic; c <= best; c++ {
		if c.String() == want {
			return c
		}
	}
	return best
}
