package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const lanes = 32 // of a dot product

// ramp is n ones followed by n zeros, as masks of size bytes each: the masks
// of the first r of n lanes start at byte (n−r)·size.
func ramp(name string, n, size int) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 2 * n {
		switch {
		case size == 4 && i < n:
			DATA(4*i, U32(^uint32(0)))
		case size == 4:
			DATA(4*i, U32(0))
		case i < n:
			DATA(8*i, U64(^uint64(0)))
		default:
			DATA(8*i, U64(0))
		}
	}
	return m
}

// dotLanes emits lane[i mod 32] += a[i]·(k[i]+offset) for float32 k. Lanes
// begin at +0 and so are never −0: adding +0 for a masked element does not
// change them.
//
// A zero offset need not be added, for the same reason.
func dotLanes(s isa, shifted bool) {
	var offset VecVirtual
	if shifted {
		s.text("dotLanes", "func(k *float32, a *float64, n int, offset float64, lane *[32]float64)",
			"adds a[i]·(k[i]+offset) to lane[i mod 32] for i < n, rounding after\neach of the three operations.")
		offset = s.broadcast64("offset")
	} else {
		s.text("dotMixed", "func(k *float32, a *float64, n int, lane *[32]float64)",
			"adds a[i]·k[i], rounded, to lane[i mod 32] for i < n.")
	}
	k, w := Load(Param("k"), GP64()), s.bytes/8
	accumulate(s, 4, k, func(j int, m, _ Op) VecVirtual {
		v, p := s.vec(), Op(Mem{Base: k, Disp: 4 * w * j})
		if m != nil {
			y := s.half()
			if s.wide() {
				VMOVUPS_Z(p, m, y)
			} else {
				VMASKMOVPS(p, m, y)
			}
			p = y
		}
		VCVTPS2PD(p, v)
		if shifted {
			VADDPD(offset, v, v)
		}
		return v
	})
}

// dot64 emits lane[i mod 32] += a[i]·b[i] for two float64 slices.
func dot64(s isa) {
	s.text("dot64", "func(b, a *float64, n int, lane *[32]float64)",
		"adds a[i]·b[i], rounded, to lane[i mod 32] for i < n.")
	b, w := Load(Param("b"), GP64()), s.bytes/8
	accumulate(s, 8, b, func(j int, _, m Op) VecVirtual {
		v, p := s.vec(), Mem{Base: b, Disp: 8 * w * j}
		switch {
		case m == nil:
			VMOVUPD(p, v)
		case s.wide():
			VMOVUPD_Z(p, m, v)
		default:
			VMASKMOVPD(p, m, v)
		}
		return v
	})
}

// accumulate emits the loop and the masked tail of a dot product of a with the
// elements that load returns. load loads vector j of a block of 32 elements from
// memory at k, size bytes an element. It gets the masks for 32-bit and for 64-bit
// elements, or nil for whole vectors.
func accumulate(s isa, size int, k Register, load func(j int, m32, m64 Op) VecVirtual) {
	a, n, lane := Load(Param("a"), GP64()), Load(Param("n"), GP64()), Load(Param("lane"), GP64())
	w := s.bytes / 8
	acc := make([]VecVirtual, lanes/w)
	for j := range acc {
		acc[j] = s.vec()
		VMOVUPD(Mem{Base: lane, Disp: 8 * w * j}, acc[j])
	}
	Label("block")
	CMPQ(n, Imm(lanes))
	JL(LabelRef("tail"))
	// Rows come from slow memory, and the CPU's own prefetching ends with a page.
	for i := 0; i < size*lanes; i += 64 {
		PREFETCHT0(Mem{Base: k, Disp: 4096 + i})
	}
	for j := range acc {
		v := load(j, nil, nil)
		VMULPD(Mem{Base: a, Disp: 8 * w * j}, v, v)
		VADDPD(v, acc[j], acc[j])
	}
	ADDQ(U32(uint32(size*lanes)), k)
	ADDQ(U32(8*lanes), a)
	SUBQ(Imm(lanes), n)
	JMP(LabelRef("block"))

	Label("tail")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	if s.wide() {
		bits, part := GP64(), GP64()
		MOVQ(U64(1), bits)
		MOVQ(n, RCX)
		SHLQ(CL, bits)
		DECQ(bits)
		for j := range acc {
			m, x := K(), s.vec()
			MOVQ(bits, part)
			SHRQ(Imm(uint64(w*j)), part)
			ANDQ(U32(1<<w-1), part)
			KMOVW(part.As32(), m)
			v := load(j, m, m)
			VMOVUPD_Z(Mem{Base: a, Disp: 8 * w * j}, m, x)
			VMULPD(x, v, v)
			VADDPD(v, acc[j], m, acc[j])
		}
	} else {
		p32, p64 := GP64(), GP64()
		LEAQ(ramp32, p32)
		LEAQ(ramp64, p64)
		NEGQ(n)
		LEAQ(Mem{Base: p32, Index: n, Scale: 4, Disp: 4 * lanes}, p32)
		LEAQ(Mem{Base: p64, Index: n, Scale: 8, Disp: 8 * lanes}, p64)
		for j := range acc {
			m32, m64, x := s.half(), s.vec(), s.vec()
			VMOVDQU(Mem{Base: p32, Disp: 4 * w * j}, m32)
			VMOVDQU(Mem{Base: p64, Disp: 8 * w * j}, m64)
			v := load(j, m32, m64)
			VMASKMOVPD(Mem{Base: a, Disp: 8 * w * j}, m64, x)
			VMULPD(x, v, v)
			VANDPD(m64, v, v) // an infinite offset times 0 is NaN
			VADDPD(v, acc[j], acc[j])
		}
	}
	Label("done")
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: lane, Disp: 8 * w * j})
	}
	VZEROUPPER()
	RET()
}

var (
	ramp32 = ramp("ramp32", lanes, 4)
	ramp64 = ramp("ramp64", lanes, 8)
)

// axpy emits y[i] += c·x[i] for n elements, a multiple of 16, with x of
// size 4 or 8 bytes an element.
func axpy(s isa, name string, size int) {
	s.text(name, fmt.Sprintf("func(c float64, x *float%d, y *float64, n int)", 8*size),
		"adds c·x[i], rounded, to y[i] for i < n; n > 0 is a multiple of 16.")
	x, y, n := Load(Param("x"), GP64()), Load(Param("y"), GP64()), Load(Param("n"), GP64())
	c := s.broadcast64("c")
	w := s.bytes / 8
	Label("loop")
	var sum []VecVirtual
	for j := range 16 / w {
		v, m := s.vec(), Mem{Base: x, Disp: size * w * j}
		if size == 4 {
			VCVTPS2PD(m, v)
			VMULPD(c, v, v)
		} else {
			VMULPD(m, c, v)
		}
		VADDPD(Mem{Base: y, Disp: 8 * w * j}, v, v)
		sum = append(sum, v)
	}
	// Check all sums for NaNs, which are rare, at once.
	if s.wide() {
		k := K()
		VCMPPD(Imm(3), sum[0], sum[1], k)
		KORTESTW(k, k)
	} else {
		t, u, bits := s.vec(), s.vec(), GP32()
		VCMPPD(Imm(3), sum[0], sum[1], t)
		VCMPPD(Imm(3), sum[2], sum[3], u)
		VORPD(t, u, t)
		VMOVMSKPD(t, bits)
		TESTL(bits, bits)
	}
	JNZ(LabelRef("nan"))
	Label("store")
	for j, v := range sum {
		VMOVUPD(v, Mem{Base: y, Disp: 8 * w * j})
	}
	ADDQ(U32(uint32(16*size)), x)
	ADDQ(U32(128), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
	Label("nan")
	for _, v := range sum {
		s.canon64(v)
	}
	JMP(LabelRef("store"))
}

// overlap adds max(min(sign·x[i], most), 0) to y[i].
func overlap(s isa) {
	s.text("overlap", "func(sign, most float64, x *float32, y *float64, n int)",
		"adds max(min(sign·x[i], most), 0) to y[i] for i < n; n > 0 is a multiple of 16.")
	x, y, n := Load(Param("x"), GP64()), Load(Param("y"), GP64()), Load(Param("n"), GP64())
	sign, most, zero := s.broadcast64("sign"), s.broadcast64("most"), s.vec()
	s.zero(zero)
	w := s.bytes / 8
	Label("loop")
	for j := range 16 / w {
		v, m := s.vec(), Mem{Base: y, Disp: 8 * w * j}
		VCVTPS2PD(Mem{Base: x, Disp: 4 * w * j}, v)
		VMULPD(sign, v, v)
		VMINPD(most, v, v)
		VMAXPD(zero, v, v)
		VADDPD(m, v, v)
		VMOVUPD(v, m)
	}
	ADDQ(Imm(64), x)
	ADDQ(U32(128), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// distances sets dst[i] to max(x + norms[i] − 2·dots[i], 0).
func distances(s isa) {
	s.text("distances", "func(x float64, norms, dots *float64, dst *float32, n int)",
		"sets dst[i] to max(x + norms[i] − 2·dots[i], 0) for i < n; n > 0 is a multiple of 16.")
	norms, dots, dst, n := Load(Param("norms"), GP64()), Load(Param("dots"), GP64()), Load(Param("dst"), GP64()), Load(Param("n"), GP64())
	x, zero := s.broadcast64("x"), s.vec()
	s.zero(zero)
	w := s.bytes / 8
	Label("loop")
	for j := range 16 / w {
		v, d, out := s.vec(), s.vec(), Mem{Base: dst, Disp: 4 * w * j}
		VADDPD(Mem{Base: norms, Disp: 8 * w * j}, x, v)
		VMOVUPD(Mem{Base: dots, Disp: 8 * w * j}, d)
		VADDPD(d, d, d)
		VSUBPD(d, v, v)
		VMAXPD(zero, v, v)
		if s.wide() {
			VCVTPD2PS(v, v.AsY())
			VMOVUPS(v.AsY(), out)
		} else {
			VCVTPD2PSY(v, v.AsX())
			VMOVUPS(v.AsX(), out)
		}
	}
	ADDQ(U32(128), norms)
	ADDQ(U32(128), dots)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
