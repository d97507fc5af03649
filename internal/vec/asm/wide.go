package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A wideOp computes the term that one feature adds to an element's float64 sum. t may
// be overwritten.
type wideOp struct {
	name, what string
	add        func(s isa, x, t, sum VecVirtual)
}

var wideOps = []wideOp{
	{"wideSquare", "(x−z)²", func(s isa, x, t, sum VecVirtual) {
		VSUBPD(t, x, t)
		VMULPD(t, t, t)
		VADDPD(t, sum, sum)
	}},
	{"wideProduct", "x·z", func(s isa, x, t, sum VecVirtual) {
		VMULPD(t, x, t)
		VADDPD(t, sum, sum)
	}},
	{"wideAbsolute", "|x−z|", func(s isa, x, t, sum VecVirtual) {
		VSUBPD(t, x, t)
		if s.wide() {
			VPANDQ(bits64(1<<63-1), t, t)
		} else {
			VANDPD(bits64(1<<63-1), t, t)
		}
		VADDPD(t, sum, sum)
	}},
}

// wideSums emits the float64 sums of one row with as many columns of a panel
// as eight registers hold.
func wideSums(s isa, o wideOp) {
	s.text(o.name, "func(x *float32, d int, z *float32, out *float64)", "sets out[c] = Σ "+o.what+
		" in float64 over d > 0 features for a row x and\nthe columns of a panel at z that eight registers hold.")
	x, d, z, out := Load(Param("x"), GP64()), Load(Param("d"), GP64()), Load(Param("z"), GP64()), Load(Param("out"), GP64())
	var acc [8]VecVirtual
	for j := range acc {
		acc[j] = s.vec()
		s.zero(acc[j])
	}
	Label("feature")
	h, v := s.half(), s.vec()
	VBROADCASTSS(Mem{Base: x}, h)
	VCVTPS2PD(h, v)
	for j := range acc {
		t := s.vec()
		VCVTPS2PD(Mem{Base: z, Disp: s.bytes / 2 * j}, t)
		o.add(s, v, t, acc[j])
	}
	ADDQ(Imm(4), x)
	ADDQ(U32(panelBytes), z)
	DECQ(d)
	JNZ(LabelRef("feature"))
	for j := range acc {
		VMOVUPD(acc[j], Mem{Base: out, Disp: s.bytes * j})
	}
	VZEROUPPER()
	RET()
}

// taylor2 holds the coefficients ln(2)^k/k! of 2^r, highest first. The same
// numbers are in score.go.
var taylor2 = []float64{
	2.5678435993488206e-11, 4.4455382718708115e-10, 7.0549116208011235e-09, 1.0178086009239699e-07,
	1.3215486790144307e-06, 1.5252733804059841e-05, 0.0001540353039338161, 0.0013333558146428443,
	0.009618129107628477, 0.05550410866482158, 0.2402265069591007, 0.6931471805599453, 1,
}

// wideExp emits 2^(c·s) in float64, without fused operations, which would be
// slow in the Go twin.
func wideExp(s isa) {
	s.text("wideExp", "func(p *float64, n int, c float64)",
		"replaces n elements s, a multiple of 8, by 2^max(c·s, −1000).")
	p, n, c := Load(Param("p"), GP64()), Load(Param("n"), GP64()), s.broadcast64("c")
	magic, least := s.vec(), s.vec()
	VMOVUPD(bits64(math.Float64bits(0x1.8p52)), magic)
	VMOVUPD(bits64(math.Float64bits(-1000)), least)
	Label("block")
	for j := range 64 / s.bytes {
		t, r, y := s.vec(), s.vec(), s.vec()
		VMULPD(Mem{Base: p, Disp: j * s.bytes}, c, t)
		VMAXPD(least, t, t)
		VADDPD(magic, t, y)
		VSUBPD(magic, y, r)
		VSUBPD(r, t, r) // exact
		VPSLLQ(Imm(52), y, t)
		VMOVUPD(bits64(math.Float64bits(taylor2[0])), y)
		for _, k := range taylor2[1:] {
			VMULPD(r, y, y)
			VADDPD(bits64(math.Float64bits(k)), y, y)
		}
		VPADDQ(t, y, y)
		VMOVUPD(y, Mem{Base: p, Disp: j * s.bytes})
	}
	ADDQ(Imm(64), p)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
