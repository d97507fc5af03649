// Package samplers decides which examples of a stream a learner trains on: it is
// the buffer between the examples that arrive and the steps that learn from them,
// with sliding-window, reservoir, class-balanced and growing samples.
//
// A learner embeds a Buffer, which gives it Add and Need, and takes from it the
// examples for its next step:
//
//	func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
//		d := l.Take()        // what joins the sample, what leaves it, what to test on
//		l.learn(d.Join, d.Slots)
//		return l.Report(), nil
//	}
//
// The package example is a complete training loop. The policy of the buffer
// determines the sample:
//
//	Buffer    every example once (Everything), or a sample in slots: the newest
//	          examples (Recent), the first ones (First), a uniform sample of all
//	          (Uniform), or one with equally many of each class (Balanced)
//	Growing   the sample S_k of a stochastic method, which grows as its radius
//	          shrinks (Theorem 3.3), and the fresh draws T_k to test on
//	Pools     labelled examples in a sample, unlabelled ones in minibatches
//
// The learner owns its buffer and the examples that it takes. A buffer keeps the
// features of members only with Options.Hold, otherwise just their sequence numbers
// by slot: a learner that packs its points would hold them twice.
//
// Everything is deterministic: what is drawn follows from the options, the seed and
// the sequence of calls. Fields describes the state for package state; it is
// decoded into a buffer made with the same options. Memory is bounded by the
// configured sizes, provided that the steps that are due are taken. Nothing here is
// safe for concurrent use.
//
// The API may change, except for Fate and Need, which package algos exports too.
package samplers
