package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// exp2 holds the coefficients of 2^r on [−½, ½], lowest first. The same
// numbers are in exp.go.
var exp2 = []float64{
	1, 0.69314720671061968993, 0.24022651213595688779, 0.055503272142096243824,
	0.0096180256029138634644, 0.0013400432165274756002, 0.00015469731987598932992,
}

// cosine holds the coefficients of cos(2πr) in r² − 1/8 for |r| ≤ ½, lowest
// first. The same numbers are in cos.go.
var cosine = []float64{
	-0.60569986719231838634, -7.070344104724311407, 38.052759524903187582, -59.168735728552078967,
	45.468035677172153441, -21.071105627681628647, 6.5286581628295605739,
}

const epilogueArgs = "p *float32, rows, width, stride int"

// epilogue emits a loop over a block of rows × width elements, whose rows are
// stride bytes apart; width is a multiple of 16. body does one vector.
func epilogue(s isa, body func(p Mem)) {
	block(func(p Register) {
		for j := range 64 / s.bytes {
			body(Mem{Base: p, Disp: j * s.bytes})
		}
	})
}

// block emits the loop of epilogue; body does 16 elements at p.
func block(body func(p Register)) {
	base, rows, stride := Load(Param("p"), GP64()), Load(Param("rows"), GP64()), Load(Param("stride"), GP64())
	p, n := GP64(), GP64()
	Label("row")
	MOVQ(base, p)
	Load(Param("width"), n)
	Label("column")
	body(p)
	ADDQ(Imm(64), p)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("column"))
	ADDQ(stride, base)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func (s isa) broadcastParam(name string) VecVirtual {
	c, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	r := s.vec()
	VBROADCASTSS(c.Addr, r)
	return r
}

// broadcast64 is broadcastParam for a float64.
func (s isa) broadcast64(name string) VecVirtual {
	c, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	r := s.vec()
	VBROADCASTSD(c.Addr, r)
	return r
}

// expNeg emits exp(−γs) as 2^n·2^r: hi+lo = −γ·log₂e to 48 bits, so that the
// reduced argument r carries no error of the product even where n is large.
func expNeg(s isa) {
	s.text("expNeg", "func("+epilogueArgs+", hi, lo, limit float32)",
		"replaces each s of a block by 2^((hi+lo)·s), by 0 where s > limit.")
	hi, lo, limit := s.broadcastParam("hi"), s.broadcastParam("lo"), s.broadcastParam("limit")
	// Adding 1.5·2²³ rounds to an integer, which is then in the low bits.
	magic := s.vec()
	VMOVUPS(float32s(0x1.8p23), magic)
	c := make([]VecVirtual, len(exp2)-1)
	for i := range c {
		c[i] = s.vec()
		VMOVUPS(float32s(exp2[i]), c[i])
	}
	epilogue(s, func(p Mem) {
		v, t, n, y := s.vec(), s.vec(), s.vec(), s.vec()
		VMOVUPS(p, v)
		VMOVAPS(v, t)
		VFMADD213PS(magic, hi, t)
		VSUBPS(magic, t, n)
		r := n // r = v·hi − n, then + v·lo
		VFMSUB231PS(hi, v, r)
		VFMADD231PS(lo, v, r)
		VMOVUPS(float32s(exp2[len(exp2)-1]), y)
		for i := len(c) - 1; i >= 0; i-- {
			VFMADD213PS(c[i], r, y)
		}
		if s.wide() {
			inside, nan := K(), K()
			VCMPPS(Imm(2), limit, v, inside) // v ≤ limit
			VCMPPS(Imm(3), t, t, nan)
			VPSLLD(Imm(23), t, t)
			VPADDD_Z(t, y, inside, y)
			VMOVUPS(bits32(nan32), nan, y)
		} else {
			VCMPPS(Imm(2), limit, v, v)
			VCMPPS(Imm(3), t, t, n)
			VPSLLD(Imm(23), t, t)
			VPADDD(t, y, y)
			VANDPS(v, y, y)
			// A NaN sum is not ≤ limit, so y is 0 here; a NaN hi has a NaN limit.
			VANDPS(bits32(nan32), n, n)
			VORPS(n, y, y)
		}
		VMOVUPS(y, p)
	})
}

// shift emits s + c. With c = 0 it ends a plain sum: −0 becomes +0, so that appended
// zero features change nothing, and every NaN the same one.
func shift(s isa) {
	s.text("shift", "func("+epilogueArgs+", c float32)",
		"replaces each s of a block by s+c, a NaN by the one NaN.")
	c := s.broadcastParam("c")
	epilogue(s, func(p Mem) {
		y := s.vec()
		VADDPS(p, c, y)
		s.canon32(y)
		VMOVUPS(y, p)
	})
}

// power emits (gamma·s + coef0)^degree by squaring.
func power(s isa) {
	s.text("power", "func("+epilogueArgs+", gamma, coef0 float32, degree int)",
		"replaces each s of a block by (gamma·(s+0) + coef0)^degree.")
	gamma, coef0 := s.broadcastParam("gamma"), s.broadcastParam("coef0")
	zero, one := s.vec(), s.vec()
	s.zero(zero)
	VMOVUPS(float32s(1), one)
	e, nv := GP64(), 64/s.bytes
	x, y := make([]VecVirtual, nv), make([]VecVirtual, nv)
	for j := range nv {
		x[j], y[j] = s.vec(), s.vec()
	}
	block(func(p Register) {
		for j := range nv {
			VADDPS(Mem{Base: p, Disp: j * s.bytes}, zero, x[j])
			VFMADD213PS(coef0, gamma, x[j])
			VMOVAPS(one, y[j])
		}
		Load(Param("degree"), e)
		Label("bit")
		TESTQ(U32(1), e)
		JZ(LabelRef("even"))
		for j := range nv {
			VMULPS(x[j], y[j], y[j])
		}
		Label("even")
		for j := range nv {
			VMULPS(x[j], x[j], x[j])
		}
		SHRQ(Imm(1), e)
		JNZ(LabelRef("bit"))
		for j := range nv {
			s.canon32(y[j])
			VMOVUPS(y[j], Mem{Base: p, Disp: j * s.bytes})
		}
	})
}

// round emits n = t rounded to the nearest integer, ties to even.
func (s isa) round(t Op, n VecVirtual) {
	if s.wide() {
		VRNDSCALEPS(Imm(8), t, n)
	} else {
		VROUNDPS(Imm(8), t, n)
	}
}

// cosTurns emits the last operations of a random Fourier feature.
func cosTurns(s isa) {
	s.text("cosTurns", "func("+epilogueArgs+", phase *float32)",
		"replaces each s of a block by cos(2π(s + phase of its column)).")
	phase := Load(Param("phase"), GP64())
	eighth, c := s.vec(), make([]VecVirtual, len(cosine)-1)
	VMOVUPS(float32s(0.125), eighth)
	for i := range c {
		c[i] = s.vec()
		VMOVUPS(float32s(cosine[i]), c[i])
	}
	base, rows, stride := Load(Param("p"), GP64()), Load(Param("rows"), GP64()), Load(Param("stride"), GP64())
	width := Load(Param("width"), GP64())
	SHLQ(Imm(2), width)
	i := GP64()
	Label("row")
	XORQ(i, i)
	Label("column")
	for j := range 64 / s.bytes {
		t, y := s.vec(), s.vec()
		at := Mem{Base: base, Index: i, Scale: 1, Disp: j * s.bytes}
		VMOVUPS(at, t)
		VADDPS(Mem{Base: phase, Index: i, Scale: 1, Disp: j * s.bytes}, t, t)
		n := s.vec()
		s.round(t, n)
		VSUBPS(n, t, t) // exact
		VFMSUB213PS(eighth, t, t)
		VMOVUPS(float32s(cosine[len(cosine)-1]), y)
		for i := len(c) - 1; i >= 0; i-- {
			VFMADD213PS(c[i], t, y)
		}
		s.canon32(y)
		VMOVUPS(y, at)
	}
	ADDQ(Imm(64), i)
	CMPQ(i, width)
	JL(LabelRef("column"))
	ADDQ(stride, base)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
