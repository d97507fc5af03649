package adaptive

import (
	"context"

	"github.com/streamsvm/streamsvm/stream"
)

// predictAndLearn takes a batch from the front of xs and returns its length. Each expert predicts
// an example, then learns from it, before it predicts the next one. dst, which may be nil,
// gets the predictions.
//
// Experts are independent, so each runs through the whole batch by itself. Kernel learners
// are the exception: the drift detector compares them, which may cut the sample. Experts of a
// regression depend on the labels before, and take one example at a time.
func (l *Learner) predictAndLearn(ctx context.Context, dst []float64, xs []*stream.Example) (int, error) {
	seen := l.detector.Seen()
	xs = xs[:min(len(xs), l.batchLimit(seen))]
	widens := l.makeBatch(xs)
	xs = xs[:len(l.batch)]
	l.predictions, l.aged = l.predictions[:0], nil
	fresh := false
	for _, x := range xs {
		p := l.takePending(x)
		l.predictions, fresh = append(l.predictions, p), fresh || p == nil
	}
	err := l.each(1+len(l.parts), func(i int) error {
		switch {
		case i == 1:
			if fresh {
				l.aged = l.agedScores(xs, seen)
			}
			return nil
		case l.numbers != nil || widens:
			return nil
		case i == 0:
			return l.train(ctx, fresh)
		}
		return l.ticks(func(from, to int) error {
			err := l.run(l.parts[i-1], from, to, fresh, true)
			if at := seen + uint64(to); err == nil && at%tick == 0 && to < len(xs) {
				err = l.step(ctx, l.parts[i-1], at)
			}
			return err
		})
	})
	all := [2]int{0, len(l.experts)}
	switch {
	case err != nil:
	case widens:
		if err = l.run(all, 0, 1, fresh, false); err == nil {
			l.judge(0)
			err = l.widen(&l.batch[0])
			l.labels.learn(xs[0].Y)
		}
	case l.numbers != nil:
		for i, x := range xs {
			if err = l.run(all, i, i+1, fresh, true); err != nil {
				break
			}
			l.judge(i)
			l.labels.learn(x.Y)
		}
	}
	if err != nil {
		return 0, err
	}
	ticks := l.detector.Seen()%tick == 0
	if l.nextFit(seen) == l.detector.Seen() {
		err = l.fitInputs()
	}
	if err != nil {
		return 0, err
	}
	err = l.each(1+len(l.parts), func(i int) error {
		switch {
		case i == 0:
			l.mix(dst)
		case i == 1 && ticks && (l.numbers != nil || widens):
			return l.maintain(ctx)
		case i > 1 && ticks:
			return l.step(ctx, l.parts[i-1], l.detector.Seen())
		}
		return nil
	})
	return len(xs), err
}

// batchLimit returns the largest batch that may follow: a batch ends where a version may be due,
// where the inputs change, and where an expert has to see all examples before.
func (l *Learner) batchLimit(seen uint64) int {
	n := uint64(maxBatch)
	if plan := l.plan(); plan != nil {
		n = min(n, plan.look-seen)
	}
	if next := l.nextFit(seen); next > 0 {
		n = min(n, next-seen)
	}
	if l.numbers != nil {
		return int(min(n, tick-seen%tick))
	}
	for _, e := range l.experts {
		if f, ok := e.expert.(*randomFeatures); ok {
			n = min(n, f.untilDue(seen))
		}
	}
	return int(n)
}

// ticks calls f for each run of the batch between two ticks.
func (l *Learner) ticks(f func(from, to int) error) error {
	for from, to := 0, 0; from < len(l.batch); from = to {
		for to++; to < len(l.batch) && l.batch[to].i > 0; to++ {
		}
		if err := f(from, to); err != nil {
			return err
		}
	}
	return nil
}

// train runs the kernel learners through the batch.
func (l *Learner) train(ctx context.Context, fresh bool) error {
	return l.ticks(func(from, to int) error {
		if err := l.run(l.parts[0], from, to, fresh, true); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			l.judge(i)
		}
		if l.detector.Seen()%tick == 0 {
			return l.maintain(ctx)
		}
		return nil
	})
}

// run lets a range of experts predict examples [from, to) of the batch, which lie between two
// ticks, and learn from them.
func (l *Learner) run(part [2]int, from, to int, fresh, learn bool) error {
	for e := part[0]; e < part[1]; e++ {
		x := l.experts[e].expert
		if l.batch[from].i == 0 {
			end := to
			for l.numbers != nil && end < len(l.batch) {
				end++
			}
			x.begin(l.batch[from:end], fresh)
		}
		for i := from; i < to; i++ {
			in := &l.batch[i]
			s := x.predict(in)
			l.scores[i][e] = s
			if !learn {
				continue
			}
			if err := x.learn(in.toLearn(), s); err != nil {
				return err
			}
		}
	}
	return nil
}

// step calls the step method of a range of experts, at a tick.
func (l *Learner) step(ctx context.Context, part [2]int, seen uint64) error {
	for _, e := range l.experts[part[0]:part[1]] {
		if err := e.step(ctx, seen); err != nil {
			return err
		}
	}
	return nil
}

// makeBatch prepares a batch from the front of xs. It reports whether the batch is a single example,
// the first that is wide.
func (l *Learner) makeBatch(xs []*stream.Example) (widens bool) {
	l.batch = l.batch[:0]
	starts, computed := false, false
	for i, x := range xs {
		if widens = !l.inputs.wide && x.X.Dim() > narrow; widens && i > 0 {
			widens = false
			break
		}
		if l.numbers != nil { // experts may retain it
			l.buffers[i] = nil
		}
		in, known := l.common.input(l.detector.Seen() + uint64(i))
		switch {
		case known:
			l.inputs.observe(x.X)
		case widens:
			in, computed = l.inputs.input(l.buffers[i], x.X), true
		default:
			in, computed = l.inputs.next(l.buffers[i], x.X), true
			l.buffers[i] = in.z.Val
		}
		in.x, in.i = x, i-max(0, i-int((l.detector.Seen()+uint64(i))%tick))
		l.batch = append(l.batch, in)
		if widens {
			break
		}
		l.dim = max(l.dim, x.X.Dim())
		if starts = l.fourier == nil && !l.inputs.wide && l.detector.Seen()+uint64(i)+1 >= uint64(l.sizes.first) && l.dim > 0; starts {
			break
		}
	}
	if l.numbers != nil {
		l.phis = nil
	}
	if computed {
		l.setPhis(&l.phis, l.batch)
		l.setHats(&l.hats, &l.inputs, l.batch, xs)
	}
	if starts {
		l.fourier = newFourier(l.dim, l.env.Seed)
	}
	return widens
}

// setPhis sets the random features of a batch in the memory of room.
func (l *Learner) setPhis(room *[]float32, batch []input) {
	if l.fourier == nil {
		return
	}
	zs := make([]stream.Vec, len(batch))
	for i := range zs {
		zs[i] = batch[i].z
	}
	for i, phi := range l.fourier.ofAll(*room, zs...) {
		if batch[i].phi = phi; i == 0 {
			*room = phi.Val[:0]
		}
	}
}

// setHats sets the splines of a batch, which begins xs, in the memory of room.
func (l *Learner) setHats(room *stream.Vec, in *inputs, batch []input, xs []*stream.Example) {
	if l.splines == nil {
		return
	}
	raw, zs := make([]stream.Vec, len(batch)), make([]stream.Vec, len(batch))
	for i := range zs {
		raw[i], zs[i] = xs[i].X, batch[i].z
	}
	for i, hat := range l.splines.ofAll(room, in, raw, zs) {
		batch[i].hat = hat
	}
}

// prepare fills in the forms of an input outside a batch.
func (l *Learner) prepare(in *input) {
	in.z = l.inputs.apply(in.x.X)
	if l.fourier != nil {
		in.phi = l.fourier.of(in.z)
	}
	if l.splines != nil {
		in.hat = l.splines.ofAll(new(stream.Vec), &l.inputs, []stream.Vec{in.x.X}, []stream.Vec{in.z})[0]
	}
	in.row = l.inputs.gradientRow(in.z, in.x.X)
}
