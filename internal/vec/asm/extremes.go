package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// extremes emits a search in eight lanes, element i in lane i mod 8.
func extremes(s isa) {
	s.text("extremes", "func(values, a, lo, hi *float64, n int, out *[32]float64)",
		"sets out to the largest values with a < hi in each of eight lanes and their\n"+
			"indices, the smallest values with a > lo and theirs; n > 0 is a multiple of 8.")
	g, a, lo, hi := Load(Param("values"), GP64()), Load(Param("a"), GP64()), Load(Param("lo"), GP64()), Load(Param("hi"), GP64())
	n, out := Load(Param("n"), GP64()), Load(Param("out"), GP64())
	regs := 64 / s.bytes
	step := s.vec()
	VMOVUPD(bits64(math.Float64bits(8)), step)
	index := make([]VecVirtual, regs)
	var best, at [2][]VecVirtual // of the largest, of the smallest
	for j := range regs {
		index[j] = s.vec()
		VMOVUPD(eight.Offset(j*s.bytes), index[j])
		for e := range best {
			v, i := s.vec(), s.vec()
			VMOVUPD(bits64(math.Float64bits(math.Inf(2*e-1))), v)
			VMOVUPD(bits64(math.Float64bits(-1)), i)
			best[e], at[e] = append(best[e], v), append(at[e], i)
		}
	}
	const less, greater = 17, 30 // ordered, quiet
	Label("loop")
	for j := range regs {
		gv, av := s.vec(), s.vec()
		VMOVUPD(Mem{Base: g, Disp: j * s.bytes}, gv)
		VMOVUPD(Mem{Base: a, Disp: j * s.bytes}, av)
		for e := range best {
			bound, inside, better := hi, uint64(less), uint64(greater)
			if e == 1 {
				bound, inside, better = lo, greater, less
			}
			if s.wide() {
				k := K()
				VCMPPD(Imm(inside), Mem{Base: bound, Disp: j * s.bytes}, av, k)
				VCMPPD(Imm(better), best[e][j], gv, k, k)
				VMOVAPD(gv, k, best[e][j])
				VMOVAPD(index[j], k, at[e][j])
			} else {
				k, t := s.vec(), s.vec()
				VCMPPD(Imm(inside), Mem{Base: bound, Disp: j * s.bytes}, av, k)
				VCMPPD(Imm(better), best[e][j], gv, t)
				VANDPD(k, t, k)
				VBLENDVPD(k, gv, best[e][j], best[e][j])
				VBLENDVPD(k, index[j], at[e][j], at[e][j])
			}
		}
		VADDPD(step, index[j], index[j])
	}
	for _, p := range []Register{g, a, lo, hi} {
		ADDQ(Imm(64), p)
	}
	SUBQ(Imm(8), n)
	JNZ(LabelRef("loop"))
	for e := range best {
		for j := range regs {
			VMOVUPD(best[e][j], Mem{Base: out, Disp: 128*e + j*s.bytes})
			VMOVUPD(at[e][j], Mem{Base: out, Disp: 128*e + 64 + j*s.bytes})
		}
	}
	VZEROUPPER()
	RET()
}

var eight = countTo8()

func countTo8() Mem {
	m := GLOBL("eight", RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, F64(float64(i)))
	}
	return m
}
