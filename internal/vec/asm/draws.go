package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// weyl, mix1 and mix2 are splitmix64's constants. The same numbers are in
// draws.go.
const (
	weyl = 0x9e3779b97f4a7c15
	mix1 = 0xbf58476d1ce4e5b9
	mix2 = 0x94d049bb133111eb
)

var (
	// log2p holds the coefficients of log₂(1+f)/f on [√½−1, √2−1].
	log2p = []float64{
		1.4426950994238996184, -0.72134782696004651203, 0.48088158014768977999, -0.36063868965450029958,
		0.28930119663712777767, -0.24156284430261279472, 0.19416798666653256765, -0.16615386017066446911,
		0.23347082320607659423, -0.21985638947832397694,
	}
	// sinPi and cosPi hold the coefficients of sin(πu)/u and cos(πu) in u², |u| ≤ ½.
	sinPi = []float64{3.141592640077203, -5.167710076668316, 2.5500773865289372, -0.5982904112836939, 0.07765591227685842}
	cosPi = []float64{1, -4.934802136928948, 4.058709154763225, -1.335211949391492, 0.23493706859914693, -0.024395932103982776}
)

func blockCounters() Mem {
	m := GLOBL("counters", RODATA|NOPTR)
	w := uint64(weyl)
	for i := range 16 {
		DATA(8*i, U64(uint64(i+1)*w))
	}
	return m
}

var counters = blockCounters()

// mul emits z *= m for 64-bit lanes; AVX2 can multiply only halves.
func (s isa) mul(z VecVirtual, m uint64) {
	if s.wide() {
		VPMULLQ(bits64(m), z, z)
		return
	}
	a, b := s.vec(), s.vec()
	VPSRLQ(Imm(32), z, a)
	VPMULUDQ(bits64(m), a, a)
	VPMULUDQ(bits64(m>>32), z, b)
	VPADDQ(a, b, a)
	VPSLLQ(Imm(32), a, a)
	VPMULUDQ(bits64(m), z, z)
	VPADDQ(a, z, z)
}

func (s isa) xorShift(z VecVirtual, n uint64) {
	t := s.vec()
	VPSRLQ(Imm(n), z, t)
	if s.wide() {
		VPXORQ(t, z, z)
	} else {
		VPXOR(t, z, z)
	}
}

// words emits splitmix64's outputs from word byte/8 of the block at state on.
func (s isa) words(state VecVirtual, byte int) VecVirtual {
	z := s.vec()
	VPADDQ(counters.Offset(byte), state, z)
	s.xorShift(z, 30)
	s.mul(z, mix1)
	s.xorShift(z, 27)
	s.mul(z, mix2)
	s.xorShift(z, 31)
	return z
}

func (s isa) polynomial(c []float64, x VecVirtual) VecVirtual {
	y := s.vec()
	VMOVUPS(float32s(c[len(c)-1]), y)
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(float32s(c[i]), x, y)
	}
	return y
}

// draw emits a loop over blocks of 16 words that become 32 numbers.
func draw(s isa, body func(out, state Op)) {
	out, blocks := Load(Param("out"), GP64()), Load(Param("blocks"), GP64())
	p, err := Param("state").Resolve()
	if err != nil {
		panic(err)
	}
	state := s.vec()
	VPBROADCASTQ(p.Addr, state)
	Label("block")
	body(Mem{Base: out}, state)
	w := uint64(weyl)
	VPADDQ(bits64(16*w), state, state)
	ADDQ(U32(128), out)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

const drawSignature = "func(out *float32, blocks int, state uint64)"

// normals emits the Box-Muller transform: words 0 to 7 of a block give 16 radii,
// words 8 to 15 give 16 angles. The results with cosines come first, then the ones
// with sines.
func normals(s isa) {
	s.text("normals", drawSignature, "sets 32·blocks numbers to standard normals.")
	eighth := s.vec()
	VMOVUPS(float32s(0.125), eighth)
	draw(s, func(p, state Op) {
		out := p.(Mem)
		for j := range 64 / s.bytes {
			u := s.words(state.(VecVirtual), j*s.bytes)
			half := s.vec()
			VMOVUPS(float32s(0x1p-32), half)
			VPSRLD(Imm(1), u, u)
			VCVTDQ2PS(u, u)
			VFMADD132PS(float32s(0x1p-31), half, u)
			e, f := s.vec(), s.vec()
			VPSUBD(float32s(math.Sqrt2/2), u, e)
			VPSRAD(Imm(23), e, e)
			VPSLLD(Imm(23), e, f)
			VPSUBD(f, u, f)
			VSUBPS(float32s(1), f, f)
			y := s.polynomial(log2p, f)
			VCVTDQ2PS(e, e)
			VFMADD213PS(e, f, y)
			VMULPS(float32s(-2*math.Ln2), y, y)
			zero := s.vec()
			s.zero(zero)
			VMAXPS(zero, y, y)
			VSQRTPS(y, y)

			a := s.words(state.(VecVirtual), 64+j*s.bytes)
			VCVTDQ2PS(a, a)
			VMULPS(float32s(0x1p-32), a, a)
			b := s.vec()
			VSUBPS(float32s(0.25), a, b)
			for i, t := range []VecVirtual{a, b} {
				n := s.vec()
				s.round(t, n)
				VSUBPS(n, t, t)
				VFMSUB213PS(eighth, t, t)
				v := s.polynomial(cosine, t)
				VMULPS(y, v, v)
				VMOVUPS(v, out.Offset(64*i+j*s.bytes))
			}
		}
	})
}

// cauchys emits cot(πu) for u uniform on (−½, ½).
func cauchys(s isa) {
	s.text("cauchys", drawSignature, "sets 32·blocks numbers to standard Cauchy variates.")
	draw(s, func(p, state Op) {
		out := p.(Mem)
		for j := range 128 / s.bytes {
			u := s.words(state.(VecVirtual), j*s.bytes)
			half, q := s.vec(), s.vec()
			VMOVUPS(float32s(0x1p-33), half)
			VCVTDQ2PS(u, u)
			VFMADD132PS(float32s(0x1p-32), half, u)
			VMULPS(u, u, q)
			y := s.polynomial(sinPi, q)
			VMULPS(u, y, y)
			c := s.polynomial(cosPi, q)
			VDIVPS(y, c, c)
			VMOVUPS(c, out.Offset(j*s.bytes))
		}
	})
}
