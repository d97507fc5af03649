// Package adaptive learns from streams that may drift, without options to set: it
// weights the predictions of several experts by how well each has predicted lately. It
// is the default learner.
//
// # The experts
//
//	m                        a kernel SVM whose sample grows, and is cut when the stream changes
//	k64, k256, k1024, k2048  challengers: kernel SVMs on the newest 64 to 2,048 examples
//	l1, l01                  linear, passive-aggressive, at full and at a tenth of the step
//	a3, a1                   linear, AdaGrad on the hinge loss, at rates 0.3 and 0.1
//	r1, r01                  as l1, l01, in 256 random Fourier features and the inputs
//
// m is an expansion over all kernel values (window) until it has 2,048 examples,
// and then scs. At 64 examples, at each doubling, and after a cut, the scaling of
// its inputs is fitted anew, and C and γ are chosen by the errors on the newest
// third of the newest 1,536 examples of a machine that has learned from the two
// thirds before. A stream that has not changed up to its 4,000th example has
// the options of scs chosen as they are where that learns alone: from then on, m
// is that learner, bit for bit. Challengers choose theirs each time that their
// window has been replaced four times. k2048 is there while m has learned from more
// examples than that and from 16,384 at most: on a stream that has not changed for
// longer it is not worth its time.
//
// The one-pass experts see each feature less its mean so far, in units of its
// standard deviation so far. Examples with more than 512 features are not
// centred; there are no random features then, nor k1024 and k2048, and challengers are
// linear.
//
// # What changes when the stream does
//
// compare.Detector compares m with each challenger on every example, before they
// learn from it. When a challenger has made significantly fewer errors of late, m
// begins again with what that challenger knows.
//
// Nothing waits for that: all experts vote, with the weights of fixed share at
// four rates, which are themselves weighted by their record (vote). Where nothing
// changes a vote is a little worse than m alone, and its model is larger; so m
// speaks alone unless it has lately made more errors than the vote (trust).
//
// # Model
//
// f(x) = log(p/(1−p)), where p is the probability of +1 that the panel agrees on:
// the log odds. Where m speaks alone, they are a multiple of its score. A published model is all of the panel as it was then, or m alone.
// On a stream whose label says much about the next one, such as prices, a model
// that has stopped learning is far behind the trainer's prequential accuracy.
//
// # Cost
//
// Memory: the newest 4,000 examples, the challengers' 22 MB of kernel values (4 MB
// without k2048), and what scs takes. docs/measured/adaptive.md has the time that
// each expert takes for an example.
//
// Machines change only at every 16th example, all else at each. The state is a
// function of options, seed and examples: it does not matter how they are cut
// into calls. Options are stable; the package has no other API.
//
// docs/measured/adaptive.md has the figures.
package adaptive
