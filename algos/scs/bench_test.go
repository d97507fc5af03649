package scs_test

import (
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
)

// BenchmarkLearn learns the first 10,000 rows of public data in one pass,
// Finish included, dense (ijcnn1) and sparse (a9a). STREAMSVM_VEC chooses the
// numeric kernels.
func BenchmarkLearn(b *testing.B) {
	for _, set := range []struct{ name, gamma, c string }{{"ijcnn1", "2", "32"}, {"a9a", "0.05", "1"}} {
		b.Run(set.name, func(b *testing.B) {
			data := dataset.Load(b, set.name+".train.libsvm.gz", 10000, 1)
			for b.Loop() {
				l, err := scs.Spec.New(algos.Env{Seed: 1}, map[string]string{"gamma": set.gamma, "c": set.c})
				if err != nil {
					b.Fatal(err)
				}
				train(b, l, data)
			}
			b.ReportMetric(float64(len(data)*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
