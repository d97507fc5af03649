package main

import (
	"math"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

const libsvmModel = `svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 3
rho -0.25
label %s
nr_sv 2 1
SV
1 1:1 3:-2 
0.5 2:0.5 
-1.5 1:-1 2:1 
`

func TestDecisions(t *testing.T) {
	x := stream.Vec{Val: []float32{0.5, -0.5, 1}}
	k := func(d2 float64) float64 { return math.Exp(-0.5 * d2) }
	want := k(0.25+0.25+9) + 0.5*k(0.25+1+1) - 1.5*k(2.25+2.25+1) + 0.25
	for labels, sign := range map[string]float64{"1 -1": 1, "-1 1": -1} {
		p, err := read(strings.NewReader(strings.ReplaceAll(libsvmModel, "%s", labels)))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Model.Decision(x); math.Abs(got-sign*want) > 1e-6 {
			t.Errorf("labels %s: %g, want %g", labels, got, sign*want)
		}
	}
}

func TestRefuses(t *testing.T) {
	good := strings.ReplaceAll(libsvmModel, "%s", "1 -1")
	for _, change := range [][2]string{
		{"c_svc", "nu_svc"}, {"rbf", "linear"}, {"1 -1", "1 2"}, {"total_sv 3", "total_sv 4"}, {"gamma 0.5", "gamma x"}, {"2:0.5", "2:x"},
	} {
		if _, err := read(strings.NewReader(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%q instead of %q is accepted", change[1], change[0])
		}
	}
}
