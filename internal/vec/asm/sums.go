package main

import (
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

// dotLanes emits lane[i mod 32] += a[i]·(k[i]+offset). Lanes begin at +0 and
// so are never −0: the +0 that a masked element adds leaves them as they are.
func dotLanes(s isa) {
	s.text("dotLanes", "func(k *float32, a *float64, n int, offset float64, lane *[32]float64)",
		"adds a[i]·(k[i]+offset) to lane[i mod 32] for i < n, rounding after\neach of the three operations.")
	k, a, n := Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("n"), GP64())
	lane := Load(Param("lane"), GP64())
	w := s.bytes / 8
	offset := s.vec()
	c, err := Param("offset").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSD(c.Addr, offset)
	acc := make([]VecVirtual, lanes/w)
	for j := range acc {
		acc[j] = s.vec()
		VMOVUPD(Mem{Base: lane, Disp: 8 * w * j}, acc[j])
	}
	Label("block")
	CMPQ(n, Imm(lanes))
	JL(LabelRef("tail"))
	for j := range acc {
		v := s.vec()
		VCVTPS2PD(Mem{Base: k, Disp: 4 * w * j}, v)
		VADDPD(offset, v, v)
		VMULPD(Mem{Base: a, Disp: 8 * w * j}, v, v)
		VADDPD(v, acc[j], acc[j])
	}
	ADDQ(U32(4*lanes), k)
	ADDQ(U32(8*lanes), a)
	SUBQ(Imm(lanes), n)
	JMP(LabelRef("block"))

	Label("tail")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	if s.wide() {
		bit, shift := GP64(), GP64()
		MOVQ(U64(1), bit)
		MOVQ(n, RCX)
		SHLQ(CL, bit)
		DECQ(bit)
		for j := range acc {
			m, v, y := K(), s.vec(), s.half()
			MOVQ(bit, shift)
			SHRQ(Imm(uint64(8*j)), shift)
			ANDQ(U32(0xff), shift)
			KMOVW(shift.As32(), m)
			VMOVUPS_Z(Mem{Base: k, Disp: 4 * w * j}, m, y)
			VCVTPS2PD(y, v)
			VADDPD(offset, v, v)
			x := s.vec()
			VMOVUPD_Z(Mem{Base: a, Disp: 8 * w * j}, m, x)
			VMULPD(x, v, v)
			VADDPD(v, acc[j], m, acc[j])
		}
	} else {
		m32, m64 := GP64(), GP64()
		LEAQ(ramp32, m32)
		LEAQ(ramp64, m64)
		NEGQ(n)
		LEAQ(Mem{Base: m32, Index: n, Scale: 4, Disp: 4 * lanes}, m32)
		LEAQ(Mem{Base: m64, Index: n, Scale: 8, Disp: 8 * lanes}, m64)
		for j := range acc {
			v, y, m := s.vec(), s.half(), s.vec()
			VMOVDQU(Mem{Base: m32, Disp: 4 * w * j}, y)
			VMASKMOVPS(Mem{Base: k, Disp: 4 * w * j}, y, y)
			VCVTPS2PD(y, v)
			VADDPD(offset, v, v)
			VMOVDQU(Mem{Base: m64, Disp: 8 * w * j}, m)
			x := s.vec()
			VMASKMOVPD(Mem{Base: a, Disp: 8 * w * j}, m, x)
			VMULPD(x, v, v)
			VANDPD(m, v, v) // an infinite offset times 0 is NaN
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

// axpy emits y[i] += c·k[i] for n elements, a multiple of 16.
func axpy(s isa) {
	s.text("axpyMixed", "func(c float64, k *float32, y *float64, n int)",
		"adds c·k[i], rounded, to y[i] for i < n; n > 0 is a multiple of 16.")
	k, y, n := Load(Param("k"), GP64()), Load(Param("y"), GP64()), Load(Param("n"), GP64())
	p, err := Param("c").Resolve()
	if err != nil {
		panic(err)
	}
	c := s.vec()
	VBROADCASTSD(p.Addr, c)
	w := s.bytes / 8
	Label("loop")
	for j := range 16 / w {
		v := s.vec()
		VCVTPS2PD(Mem{Base: k, Disp: 4 * w * j}, v)
		VMULPD(c, v, v)
		VADDPD(Mem{Base: y, Disp: 8 * w * j}, v, v)
		s.canon64(v)
		VMOVUPD(v, Mem{Base: y, Disp: 8 * w * j})
	}
	ADDQ(U32(64), k)
	ADDQ(U32(128), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
