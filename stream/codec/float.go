package codec

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// decimal is a number as written in a text: ±mant·10^exp. If slow is set, mant does
// not hold all digits.
type decimal struct {
	mant uint64
	exp  int
	neg  bool
	slow bool
	// plain is false if JSON does not allow the form: a leading plus sign or
	// zero, no digit before or after the point.
	plain bool
}

// scan reads the number [+-]digits[.digits][e[+-]digits] that b starts with
// and returns its length in bytes, 0 if there is none. Digits on one side of
// the point are enough.
func scan(b []byte) (d decimal, n int) {
	i := 0
	d.plain = true
	if i < len(b) {
		switch b[i] {
		case '-':
			d.neg = true
			i++
		case '+':
			d.plain = false
			i++
		}
	}
	start := i
	i = d.digits(b, i)
	digits := i - start
	if digits == 0 || digits > 1 && b[start] == '0' {
		d.plain = false
	}
	if i < len(b) && b[i] == '.' {
		i++
		point := i
		i = d.digits(b, i)
		d.exp = point - i
		digits += i - point
		if i == point {
			d.plain = false
		}
	}
	if digits == 0 {
		return decimal{}, 0
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		j := i + 1
		neg := false
		if j < len(b) && (b[j] == '+' || b[j] == '-') {
			neg = b[j] == '-'
			j++
		}
		if j == len(b) || b[j]-'0' > 9 {
			return decimal{}, 0
		}
		e := 0
		for ; j < len(b); j++ {
			c := b[j] - '0'
			if c > 9 {
				break
			}
			if e < 100000 {
				e = e*10 + int(c)
			}
		}
		if neg {
			e = -e
		}
		d.exp += e
		i = j
	}
	return d, i
}

// digits appends the digits of b from i on to the mantissa, and returns their end.
func (d *decimal) digits(b []byte, i int) int {
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if d.mant >= 1e18 {
			d.slow = true
			continue
		}
		d.mant = d.mant*10 + uint64(b[i]-'0')
	}
	return i
}

// pow10 holds the powers of ten that a float64 represents exactly.
var pow10 = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// quick returns d rounded once to float64: mantissa and power of ten are both
// exact, so the one product or quotient is the correctly rounded result
// (Clinger, "How to read floating point numbers accurately", PLDI 1990). ok is
// false if that does not hold.
func (d decimal) quick() (f float64, ok bool) {
	if d.slow || d.mant >= 1<<53 {
		return 0, false
	}
	f = float64(d.mant)
	switch {
	case d.exp == 0:
	case d.exp < 0 && d.exp >= -22:
		f /= pow10[-d.exp]
	case d.exp > 0 && d.exp <= 22:
		f *= pow10[d.exp]
	default:
		return 0, false
	}
	if d.neg {
		f = -f
	}
	return f, true
}

// float32 returns the float32 nearest to d, which was scanned from text;
// infinite on overflow.
func (d decimal) float32(text []byte) float32 {
	if f, ok := d.quick(); ok {
		if d.mant == 0 {
			return float32(f)
		}
		// Rounding to float64 and again to float32 differs from rounding once
		// only if the first rounding lands on a boundary of the second one:
		// boundaries are float64 numbers, so rounding never carries a value
		// across one. In the normal range of float32 the boundaries are the
		// numbers whose 29 surplus bits are 1 followed by zeros.
		a := math.Abs(f)
		if a >= 0x1p-126 && a < math.MaxFloat32 && math.Float64bits(f)&(1<<29-1) != 1<<28 {
			return float32(f)
		}
	}
	f, _ := strconv.ParseFloat(string(text), 32)
	return float32(f)
}

// short32 reads a number as scan and float32 do, if it has the usual form in data
// sets: [-]digits[.digits] with at most 15 digits and at least one before the point
// and after it. n is 0 if it has another form, or if a single division does not give
// the result.
func short32(b []byte) (v float32, n int) {
	i := 0
	if len(b) > 0 && b[0] == '-' {
		i = 1
	}
	minus := uint32(i) // signs are unpredictable, so there is no branch on them
	start := i
	mant := uint64(0)
	for i < len(b) && b[i]-'0' <= 9 {
		mant = mant*10 + uint64(b[i]-'0')
		i++
	}
	digits := i - start
	if digits == 0 || digits > 15 || digits > 1 && b[start] == '0' {
		return 0, 0
	}
	f := 0.0
	if i < len(b) && b[i] == '.' {
		i++
		point := i
		if len(b)-i >= 8 {
			part, k := digits8(binary.LittleEndian.Uint64(b[i:]))
			mant = mant*pow10int[k] + part
			i += k
		}
		for i < len(b) && b[i]-'0' <= 9 {
			mant = mant*10 + uint64(b[i]-'0')
			i++
		}
		places := i - point
		if digits += places; places == 0 || digits > 15 {
			return 0, 0
		}
		f = float64(mant) / pow10[places]
	} else {
		f = float64(mant)
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		return 0, 0
	}
	// See float32; below 10⁻¹⁵ there is only 0.
	if math.Float64bits(f)&(1<<29-1) == 1<<28 {
		return 0, 0
	}
	return math.Float32frombits(math.Float32bits(float32(f)) | minus<<31), i
}

// pow10int holds powers of ten.
var pow10int = [...]uint64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// notDigits returns w, a character in each byte, with each digit replaced by its
// value, and top with the top bit of each byte that is not a digit. Behind the first
// of these top may be wrong.
func notDigits(w uint64) (x, top uint64) {
	const each = 0x0101010101010101
	x = w ^ '0'*each
	return x, (x + (0x80-10)*each | x) & (0x80 * each)
}

// digits8 returns the number formed by the leading digits of eight characters, the first
// one in the lowest byte, and the count of these digits.
func digits8(w uint64) (v uint64, n int) {
	x, top := notDigits(w)
	n = bits.TrailingZeros64(top) / 8
	// With zeros before them there are eight digits: join them in pairs, then join the
	// pairs, and again.
	x <<= 64 - 8*uint(n)
	x = x*10 + x>>8
	const fours = 0x000000ff_000000ff
	return (x&fours*(100+1_000_000<<32) + x>>16&fours*(1+10_000<<32)) >> 32, n
}

// float64 returns the float64 nearest to d, which was scanned from text;
// infinite on overflow.
func (d decimal) float64(text []byte) float64 {
	if f, ok := d.quick(); ok {
		return f
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	return f
}

// nonFinite reports whether token is a spelling of NaN or infinity used by other
// programs.
func nonFinite(token []byte) bool {
	if len(token) > 0 && (token[0] == '+' || token[0] == '-') {
		token = token[1:]
	}
	return bytes.EqualFold(token, []byte("nan")) ||
		bytes.EqualFold(token, []byte("inf")) ||
		bytes.EqualFold(token, []byte("infinity"))
}

// appendFloat32 appends the shortest decimal that reads back as v.
func appendFloat32(dst []byte, v float32) []byte {
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}

// appendFloat64 appends the shortest decimal that reads back as v.
func appendFloat64(dst []byte, v float64) []byte {
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
