// Package adaptive learns from streams that may drift, without options to set: it
// stacks the predictions of many experts, and publishes the weights that are best for
// predictions made later. It is the default learner.
//
// # The experts of the classifier
//
//	m                  a kernel SVM whose sample grows, and is cut when the stream changes
//	k64, k256, k2048   challengers: kernel SVMs on the newest 64, 256 and 2,048 examples
//	l1, l01            linear, passive-aggressive, at full and at a tenth of the step
//	a3, a1             linear, AdaGrad on the hinge loss, at rates 0.3 and 0.1
//	r1, r01            as l1 and l01, in 256 random Fourier features and the inputs
//	o0.1, o0.5, o2     learner online (logistic regression) at three rates
//	n512, n2048        votes of the nearest neighbours among the newest 512 and 2,048 examples
//	last, base         the label before; the rates of the classes so far
//	dsg                learner dsg: a kernel SVM in random features, on a sample of all examples
//
// An expert is a type with the methods of the interface expert, and a line in newExperts.
// m is an expansion over all kernel values (window) until it has 2,048 examples, and then
// scs. At 64 examples, at each doubling, and after a cut, the scaling of its inputs is
// fitted anew, and C and γ are chosen by the errors on the newest third of the newest
// 1,536 examples of a machine that has learned from the two thirds before. Challengers
// choose theirs each time that their window has been replaced four times. k2048 is there
// while m has learned from more examples than that and from 16,384 at most.
//
// compare.Detector compares m with each challenger on every example, before they learn
// from it. When a challenger has made significantly fewer errors of late, m begins again
// with what that challenger knows.
//
// Linear experts and neighbours see each feature less its mean so far, in units of its
// standard deviation so far. Examples with more than 512 features are not centred; there
// are no random features then, nor k2048, n2048 and dsg, challengers are linear, and
// o0.1 to o2 see rows of unit length.
//
// # From scores to a probability
//
// The score s of each expert becomes calibrated log odds L = a u₁ + d (u − u₁) + c, where u
// is s in units of its root mean square and u₁ is u within ±0.3 (calibrator: Newton steps
// with forgetting). The log odds of the classifier are ⟨w, (L, 1)⟩, with weights by
// recursive logistic regression (stack):
//
//	p = σ(⟨w, x⟩), h = max(p(1−p), .01), k = P x/(φ + h xᵀP x)
//	w ← w + (y − p) k, P ← (P − h k xᵀP)/φ, φ = .999
//
// Weights of examples and of classes are for the experts. Log odds are of the stream as it
// is, and the decision adds what the weights of the two classes do.
//
// # More than two classes
//
// Each class has experts that tell it from the rest (small panel). They are calibrated
// together, by the softmax of their log odds, and all classes share the weights w (classes).
// There is no fixed share, and where examples have weights, probabilities have them too.
//
// # What is published
//
// A subscriber predicts with a version while it grows older, and the expert that is best
// for the next example is often not the one that is best 1,000 examples later. So
// published keeps the experts of a version, scores the examples that come after it by
// them, and learns from these scores what age does to each expert's log odds (shrinker),
// and weights. Eight rules propose weights: the classifier's own stack, fixed share, the best
// expert, a stack at age, the mean of the slow experts, single experts. Their proposals are
// frozen with each version, judged by the log loss in its life, and mixed by a Hedge that
// counts a version like 250 examples. How far a version may go from the rates of the classes
// is learned from all versions so far (caps), so that in the long run none of it is worse
// than those rates; the first dozen versions stay closer to them. As all rules are linear in
// L, but for fixed share, the model stays small (ensemble). Experts that hardly count are left
// out, and the kernel SVM m is published alone where that costs at most 1 % of the log loss
// and of what is gained on the rates of the classes.
//
// The age is the interval that algos.Env.PublishEvery gives, 2,500 examples if it is 0.
// Before the first version of that age, versions live from each power of two to the next.
//
// With late labels, experts are judged by what they predicted when the example came.
//
// # Regression
//
// The experts predict numbers (numberExperts): those of the classifier that can, k1024,
// ridge regression on the inputs and on random features, the last number and the mean.
// Two rules propose weights for the next example: fixed share at four rates, and recursive
// least squares with forgetting (squares). A fixed share mixes them (numbers). All weights
// sum to 1, and errors count in units of what they are of late, so that neither the origin
// nor the scale of the numbers matters. Predictions are limited to the range of the numbers
// so far and a tenth of it. For published versions a slow Hedge mixes these weights, their
// fixed share, a fixed share that has learned from versions in their lives, and the mean. It
// starts near the first two; the others have to earn their weights.
//
// # Cost
//
// Memory: the newest 4,000 examples, the challengers' 18 MB of kernel values (under 1 MB
// without k2048), a version of all experts, and what scs and dsg take.
// docs/measured/adaptive.md has the time that each expert takes.
//
// Machines change only at every 16th example, all else at each. The state is a function of
// options, seed and examples: it does not matter how they are cut into calls. Options are
// stable; the package has no other API.
//
// References: Wolpert, Stacked generalization, 1992; Penny and Roberts, Dynamic logistic
// regression, IJCNN 1999; Herbster and Warmuth, Tracking the best expert, 1998; Freund and
// Schapire (Hedge), 1997; Bach and Maloof, Paired learners for concept drift, ICDM 2008;
// Platt, Probabilities for SV machines, 2000.
package adaptive
