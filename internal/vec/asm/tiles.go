package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An op computes the term that one feature adds to an element's sum.
type op struct {
	name, what string
	add        func(s isa, x, z Op, t, sum VecVirtual)
}

var (
	square = op{"square", "(x−z)²", func(s isa, x, z Op, t, sum VecVirtual) {
		VSUBPS(z, x, t)
		VFMADD231PS(t, t, sum)
	}}
	product = op{"product", "x·z", func(s isa, x, z Op, t, sum VecVirtual) {
		VFMADD231PS(z, x, sum)
	}}
	absolute = op{"absolute", "|x−z|", func(s isa, x, z Op, t, sum VecVirtual) {
		VSUBPS(z, x, t)
		s.and(bits32(0x7fffffff), t, t)
		VADDPS(t, sum, sum)
	}}
)

const panelBytes = 256 // one feature of 64 rows

// strided addresses row i of up to six rows ld bytes apart, b3 being row 3.
func strided(b, b3, ld Register, i int) Mem {
	if i >= 3 {
		b, i = b3, i-3
	}
	switch i {
	case 0:
		return Mem{Base: b}
	case 1:
		return Mem{Base: b, Index: ld, Scale: 1}
	}
	return Mem{Base: b, Index: ld, Scale: 2}
}

// sums emits the sums of n rows with columns of a panel: tiles of 6, 3, 2 and
// 1 rows, held in registers over all features.
func sums(s isa, o op, columns int) {
	s.text(fmt.Sprintf("%s%d", o.name, columns), "func(x *float32, d int, z, out *float32, ldo, n int)", fmt.Sprintf(
		"sets out[r][c] = Σ %s over d > 0 features for n rows of x\n"+
			"and %d columns of a panel at z; rows of out are ldo bytes apart.", o.what, columns))
	x, z, out := Load(Param("x"), GP64()), Load(Param("z"), GP64()), Load(Param("out"), GP64())
	ldx, ldo := Load(Param("d"), GP64()), Load(Param("ldo"), GP64())
	SHLQ(Imm(2), ldx)
	n := Load(Param("n"), GP64())
	for _, rows := range []int{6, 3, 2, 1} {
		rest := fmt.Sprintf("below%d", rows)
		Label(fmt.Sprintf("rows%d", rows))
		CMPQ(n, Imm(uint64(rows)))
		JL(LabelRef(rest))
		tile(s, o, rows, columns, x, ldx, z, out, ldo)
		for range rows {
			ADDQ(ldo, out)
		}
		// x has moved on by one row while the features were read.
		for range rows - 1 {
			ADDQ(ldx, x)
		}
		SUBQ(Imm(uint64(rows)), n)
		JMP(LabelRef(fmt.Sprintf("rows%d", rows)))
		Label(rest)
	}
	VZEROUPPER()
	RET()
}

// tile emits one tile. It leaves x at the row after its first.
func tile(s isa, o op, rows, columns int, x, ldx, zb, out, ldo Register) {
	sum := make([][]VecVirtual, rows)
	nv := columns * 4 / s.bytes
	for i := range sum {
		for range nv {
			r := s.vec()
			s.zero(r)
			sum[i] = append(sum[i], r)
		}
	}
	d, z, x3, o3 := Load(Param("d"), GP64()), GP64(), GP64(), GP64()
	MOVQ(zb, z)
	if rows > 3 {
		LEAQ(Mem{Base: x, Index: ldx, Scale: 2}, x3)
		ADDQ(ldx, x3)
		LEAQ(Mem{Base: out, Index: ldo, Scale: 2}, o3)
		ADDQ(ldo, o3)
	}
	// Two features at a time leave more of the ports to arithmetic.
	features := func(n int) {
		for f := range n {
			zv := make([]VecVirtual, nv)
			for j := range zv {
				zv[j] = s.vec()
				VMOVUPS(Mem{Base: z, Disp: f*panelBytes + j*s.bytes}, zv[j])
			}
			b, t := s.vec(), s.vec()
			for i := range sum {
				m := strided(x, x3, ldx, i)
				m.Disp = 4 * f
				VBROADCASTSS(m, b)
				for j := range zv {
					o.add(s, b, zv[j], t, sum[i][j])
				}
			}
		}
		ADDQ(Imm(uint64(4*n)), x)
		if rows > 3 {
			ADDQ(Imm(uint64(4*n)), x3)
		}
		ADDQ(U32(uint32(panelBytes*n)), z)
	}
	two, last, store := fmt.Sprintf("two%d", rows), fmt.Sprintf("last%d", rows), fmt.Sprintf("store%d", rows)
	SUBQ(Imm(2), d)
	JL(LabelRef(last))
	Label(two)
	features(2)
	SUBQ(Imm(2), d)
	JGE(LabelRef(two))
	Label(last)
	ADDQ(Imm(2), d)
	JZ(LabelRef(store))
	features(1)
	Label(store)
	for i := range sum {
		for j := range sum[i] {
			m := strided(out, o3, ldo, i)
			m.Disp = j * s.bytes
			VMOVUPS(sum[i][j], m)
		}
	}
}

// row emits the sums of one row with whole panels, enough of them at a time
// (eight sums) to hide the latency of an addition.
func row(s isa, o op, panels int) {
	s.text(fmt.Sprintf("%s1x%d", o.name, 64*panels), "func(x *float32, d int, z, out *float32, reps int)", fmt.Sprintf(
		"sets out[c] = Σ %s over d > 0 features for one row x and %d\n"+
			"columns of panels at z, reps times in succession.", o.what, 64*panels))
	xb, z, out := Load(Param("x"), GP64()), Load(Param("z"), GP64()), Load(Param("out"), GP64())
	reps := Load(Param("reps"), GP64())
	nv := panelBytes / s.bytes

	Label("rep")
	var sum []VecVirtual
	for range nv * panels {
		r := s.vec()
		s.zero(r)
		sum = append(sum, r)
	}
	x, d, z2 := GP64(), Load(Param("d"), GP64()), GP64()
	MOVQ(xb, x)
	if panels == 2 {
		MOVQ(d, z2)
		SHLQ(Imm(8), z2)
		ADDQ(z, z2)
	}
	b := s.vec()
	Label("feature")
	VBROADCASTSS(Mem{Base: x}, b)
	for i := 0; i < panelBytes; i += 64 {
		PREFETCHT0(Mem{Base: z, Disp: 2048 + i})
		if panels == 2 {
			PREFETCHT0(Mem{Base: z2, Disp: 2048 + i})
		}
	}
	for j := range sum {
		m := Mem{Base: z, Disp: j * s.bytes}
		if j >= nv {
			m = Mem{Base: z2, Disp: (j - nv) * s.bytes}
		}
		o.add(s, b, m, s.vec(), sum[j])
	}
	ADDQ(Imm(4), x)
	ADDQ(U32(panelBytes), z)
	if panels == 2 {
		ADDQ(U32(panelBytes), z2)
	}
	DECQ(d)
	JNZ(LabelRef("feature"))
	if panels == 2 {
		MOVQ(z2, z)
	}
	for j := range sum {
		VMOVUPS(sum[j], Mem{Base: out, Disp: j * s.bytes})
	}
	ADDQ(U32(uint32(panels*panelBytes)), out)
	DECQ(reps)
	JNZ(LabelRef("rep"))
	VZEROUPPER()
	RET()
}
