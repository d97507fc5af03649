package codec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var number = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// checkFloat compares what scan and the conversions make of text with what
// strconv says.
func checkFloat(tb testing.TB, text string) {
	tb.Helper()
	d, n := scan([]byte(text))
	if v, k := short32([]byte(text)); k > 0 {
		if w := d.float32([]byte(text)); k != n || !d.plain || math.Float32bits(v) != math.Float32bits(w) {
			tb.Fatalf("%q: %v of %d bytes in short, %v of %d, %v", text, v, k, w, n, d.plain)
		}
	}
	if whole := n > 0 && n == len(text); whole != number.MatchString(text) {
		tb.Fatalf("%q: a number: %v", text, whole)
	} else if !whole {
		return
	}
	f32, _ := strconv.ParseFloat(text, 32)
	if got := d.float32([]byte(text)); math.Float32bits(got) != math.Float32bits(float32(f32)) {
		tb.Fatalf("%q: float32 %v, want %v", text, got, float32(f32))
	}
	f64, _ := strconv.ParseFloat(text, 64)
	if got := d.float64([]byte(text)); math.Float64bits(got) != math.Float64bits(f64) {
		tb.Fatalf("%q: float64 %v, want %v", text, got, f64)
	}
}

// TestFloatRandom compares with strconv on random decimals of all lengths, and
// on those close to the numbers halfway between two float32, where rounding
// twice would go wrong.
func TestFloatRandom(t *testing.T) {
	const seed = 2
	r := rand.New(rand.NewPCG(seed, 0))
	var b []byte
	for range 100000 {
		b = b[:0]
		if r.IntN(2) == 0 {
			b = append(b, "+-"[r.IntN(2)])
		}
		for range r.IntN(1 + r.IntN(22)) {
			b = append(b, byte('0'+r.IntN(10)))
		}
		if r.IntN(4) > 0 {
			b = append(b, '.')
		}
		for range r.IntN(1 + r.IntN(22)) {
			b = append(b, byte('0'+r.IntN(10)))
		}
		if r.IntN(3) == 0 {
			b = append(b, "eE"[r.IntN(2)])
			b = strconv.AppendInt(b, int64(r.IntN(100)-60), 10)
		}
		checkFloat(t, string(b))
	}
	for range 100000 {
		v := math.Float32frombits(r.Uint32())
		next := math.Float32frombits(math.Float32bits(v) + 1)
		half := (float64(v) + float64(next)) / 2
		if half-half != 0 {
			continue
		}
		text := strconv.FormatFloat(half, 'e', 1+r.IntN(20), 64)
		checkFloat(t, text)
		checkFloat(t, strconv.FormatFloat(float64(v), 'g', -1, 32))
		checkFloat(t, strconv.FormatFloat(half, 'f', r.IntN(30), 64))
	}
}

// TestFloatHalfway tries decimals whose nearest float64 lies exactly halfway
// between two float32 while they do not: rounding twice gives a wrong result
// for one side.
func TestFloatHalfway(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		// 24 bits and a half, with a fraction that float64 cannot hold.
		half := float64(1<<24+2*r.IntN(1<<22)+1) / 2
		for _, eps := range []string{"", "0000001", "000000000001"} {
			for _, scale := range []int{0, -3, -12, 5} {
				text := strconv.FormatFloat(half, 'f', 1, 64) + eps
				text = strings.TrimSuffix(text, ".0")
				if scale != 0 {
					text += fmt.Sprintf("e%d", scale)
				}
				checkFloat(t, text)
			}
		}
		// 9007199791611905 = 2^53 + 2^29 + 1 rounds to 2^53 + 2^29, halfway
		// between 2^53 and its successor 2^53 + 2^30.
		m := uint64(1)<<53 + uint64(r.IntN(1<<22))<<30 + 1<<29
		for _, text := range []string{strconv.FormatUint(m-1, 10), strconv.FormatUint(m, 10), strconv.FormatUint(m+1, 10)} {
			checkFloat(t, text)
		}
	}
	// Decimals with a mantissa below 2^53 whose quotient by a power of ten is
	// rounded to a halfway number: there rounding twice is wrong.
	twice := 0
	for range 100000 {
		v := math.Float32frombits(0x3f800000 + r.Uint32N(1<<23))
		half := float64(v) + 0x1p-24
		m := uint64(math.Round(half * 1e15))
		if float64(m)/1e15 == half {
			twice++
			checkFloat(t, fmt.Sprintf("%de-15", m))
		}
	}
	short := 0
	for range 200000 {
		v := math.Float32frombits(0x3f800000 + r.Uint32N(1<<23))
		half := float64(v) + 0x1p-24
		m := uint64(math.Round(half * 1e14))
		if float64(m)/1e14 == half {
			short++
			checkFloat(t, fmt.Sprintf("%d.%014d", m/1e14, m%1e14))
		}
	}
	if short < 1000 {
		t.Errorf("only %d of them have 15 digits", short)
	}
	if twice < 1000 {
		t.Errorf("only %d decimals round to a float64 halfway between two float32", twice)
	}
}

func FuzzFloat(f *testing.F) {
	for _, s := range []string{
		"", "0", "-0", "+.5", "5.", ".", "-", "1e", "1e+", "1e-400", "1e400", "3.4028235e38", "3.40282357e38",
		"1e-45", "7e-46", "1.17549435e-38", "16777217", "16777217.0000000001", "9007199254740993",
		"1.00000005960464477539062500001", "0.000000000000000000000000000000000000011754943508222875",
		"123456789012345678901234567890e-20", "1e99999999999999999999", "0e99999999999999999999", "1_0", "0x1p-2", "inf",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkFloat(t, text) })
}
