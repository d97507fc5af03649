package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pow2 holds the coefficients of 2^r on [−½, ½], lowest first. The same
// numbers are in score.go.
var pow2 = []float64{
	1.0000000716546849, 0.6931469670647604, 0.24022119723840252,
	0.05550713273498316, 0.009675541334439939, 0.0013276471992398253,
}

// score emits the sums of 2^(gain·⟨x,z⟩ + bias), times the columns' coefficients,
// for rows given by their features and the 64 columns of each of several panels.
// Several panels at a time hide the latency of the sums.
func score(s isa, panels int) {
	s.text(fmt.Sprintf("score%d", panels), "func(z *float32, step int, bias, coef *float32, n int, count *int32, features *int32, sums *[16]float64, gain float32)",
		fmt.Sprintf("adds coef[c]·2^(gain·⟨x,z_c⟩ + bias[c]) for the %d columns c of panels\n"+
			"step bytes apart to sums[r][c mod 16], for n > 0 rows of count[r] features.", 64*panels))
	z, bias, coef := Load(Param("z"), GP64()), Load(Param("bias"), GP64()), Load(Param("coef"), GP64())
	n, count := Load(Param("n"), GP64()), Load(Param("count"), GP64())
	f, sums := Load(Param("features"), GP64()), Load(Param("sums"), GP64())
	gain := s.broadcastParam("gain")
	var step Register
	if panels > 1 {
		step = Load(Param("step"), GP64())
	}
	// Operands that do not fit into registers come from memory.
	keep := func(m Mem, fits bool) Op {
		if !fits {
			return m
		}
		r := s.vec()
		VMOVUPS(m, r)
		return r
	}
	each := panelBytes / s.bytes
	nv := panels * each
	biases, coefs := make([]Op, nv), make([]Op, nv)
	for j := range nv {
		biases[j] = keep(Mem{Base: bias, Disp: j * s.bytes}, s.wide() && panels == 1)
		coefs[j] = keep(Mem{Base: coef, Disp: j * s.bytes}, s.wide() && panels == 1)
	}
	magic := keep(float32s(0x1.8p23), s.wide())
	c := make([]Op, len(pow2))
	for i, v := range pow2 {
		c[i] = keep(float32s(v), s.wide())
	}

	Label("row")
	dot := make([]VecVirtual, nv)
	for j := range dot {
		dot[j] = s.vec()
		s.zero(dot[j])
	}
	left := GP64()
	MOVLQSX(Mem{Base: count}, left)
	TESTQ(left, left)
	JZ(LabelRef("exp"))
	s.features(left, f, z, step, dot)
	Label("exp")
	lanes := 16 * 4 / s.bytes // registers of 16 sums
	part := make([]VecVirtual, lanes*panels)
	for j, w := range dot {
		VFMADD213PS(biases[j], gain, w)
		t, y := s.vec(), s.vec()
		VADDPS(magic, w, t)
		VSUBPS(magic, t, y)
		VSUBPS(y, w, w)
		VMOVUPS(c[len(c)-1], y)
		for i := len(c) - 2; i >= 0; i-- {
			VFMADD213PS(c[i], w, y)
		}
		VPSLLD(Imm(23), t, t)
		VPADDD(t, y, y)
		if at := j/each*lanes + j%lanes; j%each < lanes {
			VMULPS(coefs[j], y, y)
			part[at] = y
		} else {
			VFMADD231PS(coefs[j], y, part[at])
		}
	}
	for j, p := range part {
		j %= lanes
		lo, hi, h := s.vec(), s.vec(), s.half()
		if s.wide() {
			VEXTRACTF64X4(Imm(1), p, h)
			VCVTPS2PD(p.AsY(), lo)
		} else {
			VEXTRACTF128(Imm(1), p, h)
			VCVTPS2PD(p.AsX(), lo)
		}
		VCVTPS2PD(h, hi)
		for i, v := range []VecVirtual{lo, hi} {
			m := Mem{Base: sums, Disp: (2*j + i) * s.bytes}
			VADDPD(m, v, v)
			VMOVUPD(v, m)
		}
	}
	ADDQ(Imm(4), count)
	ADDQ(U32(128), sums)
	DECQ(n)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
