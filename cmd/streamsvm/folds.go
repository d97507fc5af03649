package main

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// On a stream this short, prequential measures say little: most predictions come from
// a model that has hardly begun. A cross-validation is cheap then.
const (
	mostFolded = 1000
	numFolds   = 10
)

// folds is a cross-validation: the rows, in random order, are cut into parts, and
// each is tested on the model of all others.
type folds struct {
	Folds int `json:"folds"`
	// Means over the folds, and the standard errors of these means.
	Accuracy *spread `json:"accuracy,omitempty"`
	AUC      *spread `json:"auc,omitempty"`
	RMSE     *spread `json:"rmse,omitempty"`
	R2       *spread `json:"r2,omitempty"`
}

type spread struct {
	Mean  eval.Number `json:"mean"`
	Error eval.Number `json:"standard_error"`
}

// newSpread returns nil if a value is not known.
func newSpread(values []float64) *spread {
	n := float64(len(values))
	mean := floats.Sum(values) / n
	if math.IsNaN(mean) {
		return nil
	}
	return &spread{eval.Number(mean), eval.Number(eval.Spread(values) / math.Sqrt((n-1)*n))}
}

// validate cross-validates a run of few records. It returns nil if that makes no sense.
func (r *replay) validate(ctx context.Context, consumed uint64) (*folds, error) {
	if consumed > mostFolded || r.join.used() || r.labelled >= 0 || r.delay > 0 || r.passes > 1 || r.checkpoint != "" ||
		len(r.test) > 0 || r.holdout > 0 || slices.Contains(r.files, "-") {
		return nil, nil
	}
	src, err := r.open(nil, 1)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	all, err := readAll(ctx, src)
	if err != nil {
		return nil, err
	}
	var recs []stream.Record // with a label; the run has reported the unusable ones
	for i := range all {
		var ex stream.Example
		if all[i].Value != nil && r.job.Decoder.Decode(all[i].Value, &ex) == nil && ex.Labelled {
			recs = append(recs, all[i])
		}
	}
	if len(recs) < 5*numFolds {
		return nil, nil
	}
	shuffle(recs, r.job.Options.Seed)
	var accuracy, auc, rmse, r2 []float64
	for k := range numFolds {
		from, to := k*len(recs)/numFolds, (k+1)*len(recs)/numFolds
		rest := append(append([]stream.Record(nil), recs[:from]...), recs[to:]...)
		job := r.job
		job.Hooks, job.Checkpoints = nil, trainer.Checkpoints{Interval: -1}
		job.Open = func(context.Context, stream.Offsets) (stream.Source, error) {
			return newMemory(rest, "folds", 1, nil), nil
		}
		res, err := trainer.Run(ctx, job)
		if err != nil {
			return nil, err
		}
		p, err := res.Predictor()
		if err != nil || p == nil || !res.Ended {
			return nil, err
		}
		t, err := score(ctx, p, newMemory(recs[from:to], "fold", 1, nil), job.Decoder.Decode, false)
		if err != nil {
			return nil, err
		}
		if t.RMSE != nil {
			rmse, r2 = append(rmse, float64(*t.RMSE)), append(r2, float64(*t.R2))
			continue
		}
		accuracy, auc = append(accuracy, float64(t.Accuracy)), append(auc, float64(t.AUC))
	}
	return &folds{numFolds, newSpread(accuracy), newSpread(auc), newSpread(rmse), newSpread(r2)}, nil
}

// row adds the result to the table.
func (f *folds) row(row func(name, format string, args ...any)) {
	switch {
	case f.RMSE != nil && f.R2 != nil:
		row("folds", "RMSE %.5g ± %.2g, R2 %.4f ± %.2g in cross-validation of %d folds, the rows shuffled", float64(f.RMSE.Mean), float64(f.RMSE.Error), float64(f.R2.Mean), float64(f.R2.Error), f.Folds)
	case f.AUC != nil:
		row("folds", "accuracy %.2f ± %.2g %%, AUC %.4f ± %.2g in cross-validation of %d folds, the rows shuffled", 100*float64(f.Accuracy.Mean), 100*float64(f.Accuracy.Error), float64(f.AUC.Mean), float64(f.AUC.Error), f.Folds)
	case f.Accuracy != nil:
		row("folds", "accuracy %.2f ± %.2g %% in cross-validation of %d folds, the rows shuffled", 100*float64(f.Accuracy.Mean), 100*float64(f.Accuracy.Error), f.Folds)
	}
}
