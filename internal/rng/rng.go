// Package rng provides the named, seeded, serialisable random generators that all
// randomness in streamsvm comes from.
package rng

import (
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
)

// Source is a PCG whose 20-byte state can be stored and restored.
type Source struct {
	*rand.Rand
	pcg *rand.PCG
}

// New returns the generator for the stream called name under seed. Different names
// give independent streams, so that enabling one consumer of randomness does not
// shift another.
func New(seed uint64, name string) *Source {
	pcg := rand.NewPCG(seed, xxhash.Sum64String(name))
	return &Source{Rand: rand.New(pcg), pcg: pcg}
}

// AppendBinary appends the generator's state to dst.
func (s *Source) AppendBinary(dst []byte) ([]byte, error) { return s.pcg.AppendBinary(dst) }

// MarshalBinary returns the generator's state.
func (s *Source) MarshalBinary() ([]byte, error) { return s.pcg.MarshalBinary() }

// UnmarshalBinary sets the generator's state.
func (s *Source) UnmarshalBinary(data []byte) error {
	if s.pcg == nil {
		s.pcg = new(rand.PCG)
		s.Rand = rand.New(s.pcg)
	}
	return s.pcg.UnmarshalBinary(data)
}
