// Package samplers is the buffer between the examples that arrive and the steps
// that learn from them: an adaptive-sampling buffer drives the sample-growing
// algorithms.
//
// A learner embeds a Buffer, which gives it Add and Need, and takes from it
// what its next step uses:
//
//	func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
//		d := l.Take()        // what joins the sample, what leaves it, what to test on
//		l.learn(d.Join, d.Slots)
//		return l.Report(), nil
//	}
//
// The example is a loop of one's own. What a sample is made of is the buffer's
// policy:
//
//	Buffer    every example once (Everything), or a sample in slots: the last
//	          ones (Recent), the first ones (First), a uniform sample of all
//	          (Uniform), or one with equal shares of the classes (Balanced)
//	Growing   the sample S_k of a stochastic method, which grows as its radius
//	          shrinks (Theorem 3.3), and the fresh draws T_k to test on
//	Pools     labelled examples in a sample, unlabelled ones in minibatches
//
// The learner owns its buffer, and the examples that it takes: a buffer keeps
// the features of members only with Options.Hold, so a learner that packs its
// points holds them once. Of the others it keeps the sequence numbers, by slot.
//
// All of it is deterministic: what is drawn follows from the options, the seed
// and the sequence of calls. Fields describes the state for package state; it
// is decoded into a buffer made with the same options. Memory is bounded by the
// sizes given as long as the steps that are due are taken. Nothing here is safe
// for concurrent use.
//
// The API may change, apart from Fate and Need, which package algos takes over.
package samplers
