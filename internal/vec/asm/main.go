// Command asm generates the assembly of package vec. It is a separate module, which
// keeps the generator's dependencies out of the learner. Run it with go generate in
// the parent directory.
//
// Every routine exists once here and is emitted for AVX-512 and for AVX2 with
// FMA3. An output element goes through the same operations in the same order
// in both, and in the pure-Go twin beside the stubs, so that the three agree
// in every bit.
package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An isa is an instruction set the routines are emitted for.
type isa struct {
	suffix string
	bytes  int // of a vector register
}

var (
	avx512 = isa{"AVX512", 64}
	avx2   = isa{"AVX2", 32}
)

func (s isa) wide() bool { return s.bytes == 64 }

func (s isa) vec() VecVirtual {
	if s.wide() {
		return ZMM()
	}
	return YMM()
}

// half is a register of half the width, for float32 values to be widened to float64.
func (s isa) half() VecVirtual {
	if s.wide() {
		return YMM()
	}
	return XMM()
}

func (s isa) text(name, signature, doc string) {
	TEXT(name+s.suffix, NOSPLIT, signature)
	Pragma("noescape")
	Doc(strings.Split(name+s.suffix+" "+doc, "\n")...)
}

func (s isa) zero(r Op) { VXORPS(r, r, r) }

func (s isa) and(m, x, y Op) {
	if s.wide() {
		VPANDD(m, x, y)
	} else {
		VANDPS(m, x, y)
	}
}

var constants = map[string]Mem{}

// bits32 is 64 bytes of read-only data that repeat a 32-bit pattern.
func bits32(v uint32) Mem {
	name := fmt.Sprintf("w%08x", v)
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(v))
	}
	constants[name] = m
	return m
}

func float32s(v float64) Mem { return bits32(math.Float32bits(float32(v))) }

// bits64 is 64 bytes of read-only data that repeat a 64-bit pattern.
func bits64(v uint64) Mem {
	name := fmt.Sprintf("q%016x", v)
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(v))
	}
	constants[name] = m
	return m
}

// The NaN that stands for every NaN in a result, whatever its origin.
const (
	nan32 = 0x7fc00000
	nan64 = 0x7ff8000000000001
)

// canon32 replaces NaNs in y, using t as scratch.
func (s isa) canon32(y VecVirtual) {
	if s.wide() {
		k := K()
		VCMPPS(Imm(3), y, y, k) // unordered
		VMOVUPS(bits32(nan32), k, y)
		return
	}
	t := s.vec()
	VCMPPS(Imm(3), y, y, t)
	VBLENDVPS(t, bits32(nan32), y, y)
}

func (s isa) canon64(y VecVirtual) {
	if s.wide() {
		k := K()
		VCMPPD(Imm(3), y, y, k)
		VMOVUPD(bits64(nan64), k, y)
		return
	}
	t := s.vec()
	VCMPPD(Imm(3), y, y, t)
	VBLENDVPD(t, bits64(nan64), y, y)
}

func main() {
	ConstraintExpr("!purego")
	for _, s := range []isa{avx512, avx2} {
		for _, op := range []op{square, product, absolute} {
			sums(s, op, 16)
			if s.wide() {
				sums(s, op, 64)
				row(s, op, 2)
			} else {
				row(s, op, 1)
			}
		}
		expNeg(s)
		shift(s)
		power(s)
		cosTurns(s)
		normals(s)
		cauchys(s)
		dotLanes(s, true)
		dotLanes(s, false)
		dot64(s)
		axpy(s, "axpyMixed", 4)
		axpy(s, "axpy64", 8)
		overlap(s)
		distances(s)
		extremes(s)
		for _, o := range wideOps {
			wideSums(s, o)
		}
		wideExp(s)
		productNonzeros(s, 1)
		score(s, 1)
		if s.wide() {
			productNonzeros(s, 2)
			score(s, 2)
			score(s, 4)
		}
	}
	gram(avx2)
	Generate()
}
