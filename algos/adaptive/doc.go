// Package adaptive learns from streams that may drift, with no options to set. It stacks the
// predictions of many experts, and publishes them with the weights that are best for later
// predictions. It is the default learner.
//
// # The experts of the classifier
//
//	m                  a kernel SVM on a growing sample, which is cut when the stream changes
//	k64, k256, k2048   challengers: kernel SVMs on the newest 64, 256 and 2,048 examples
//	uncut              m as it would be without cuts, from 4,000 examples on
//	l1                 linear, passive-aggressive
//	ada                linear, AdaGrad on the hinge loss
//	r1                 as l1, in 256 random Fourier features and the inputs
//	o0.5, o2           learner online (logistic regression) at two rates
//	gam                a generalized additive model with pairwise interactions (splines)
//	n512, n2048        nearest neighbours among the newest 512 and 2,048 examples
//	last, base         the previous label; the class rates so far
//	dsg                learner dsg: a kernel SVM in random features, on a sample of all examples
//
// An expert implements the interface expert and has a line in newExperts. m keeps all its
// kernel values (window) up to 2,048 examples, and is learner scs from then on. At 64
// examples, at each doubling and after a cut, its scaling is fitted again, and C and γ are
// chosen by the loss on the newest third after training on up to 1,024 examples before: the
// errors, and from 512 examples there on also the log loss (lossOf). If that makes the loss smaller, the
// features are weighted by how much a first function changes with them (scaling.weighted); dsg does
// the same. Challengers of the classifier do not, so that they differ more; they are tuned again when
// their window has been replaced four times. All take a Laplacian kernel, exp(−γ‖x − z‖₁), if that
// makes the loss still smaller: it suits steps, and sums over features. At 4,000 examples m's C and γ are chosen from a finer
// grid, by cross-validation. k2048 exists while m has learned from more
// than 2,048 and at most 16,384 examples.
//
// compare.Detector compares m with each challenger on every example, before they learn
// from it. When a challenger has recently made significantly fewer errors, m restarts from
// that challenger's window. That need not be a change: where examples of one device, say, come in a
// row, the newest ones are the best guide to the next, but not to those of a later device. So after
// the first cut the old m goes on as uncut, or a new one on the first 4,000 examples if they have
// not come yet. Of two classes, uncut ends when it is hopeless: at a version's age it loses a quarter
// of what the best expert gains over the class rates. Of several classes, m stands in for it in those
// that have not been cut.
//
// Linear experts and neighbours see standardised features: minus the mean so far, divided
// by the standard deviation so far. Features with heavy tails go through asinh first
// (prep.Asinh), which is fitted after 64 and after 512 examples, as the knots of gam are. gam is
// learner online on hat functions of each feature, at 17 quantiles, and products of those of
// two features, at five quantiles each, among the first 16 features with more than two values.
// o0.5 and o2 see features that are no numbers, according to algos.Env.Scaled, or without it are
// mostly 0, as they are: on centred categories they learn more slowly.
//
// Examples with more than 512 features, such as events with an id or a text, are not centred.
// For them there are no random features, n2048 and dsg; gam takes only what a schema says are
// numbers; and m is cut only where the evidence is stronger, since until uncut has shown its worth
// it is the only kernel expert with a long memory. o0.5 and o2 see rows scaled to unit length; so do m and the
// challengers, unless a schema says which features are numbers (algos.Env.Scaled).
//
// # From scores to a probability
//
// Each expert's score s is calibrated to log odds L = a u₁ + d (u − u₁) + c, where u is s in
// units of its root mean square and u₁ is u clipped to ±0.3 (calibrator: Newton steps with
// forgetting). The log odds of the classifier are ⟨w, (L, 1)⟩, with weights by recursive
// logistic regression (stack):
//
//	p = σ(⟨w, x⟩), h = max(p(1−p), .01), k = P x/(φ + h xᵀP x)
//	w ← w + (y − p) k, P ← (P − h k xᵀP)/φ, φ = .999
//
// Only the experts use weights of examples and classes. Log odds describe the unweighted
// stream, and the decision adds a shift for the weights of the two classes.
//
// # More than two classes
//
// Each class has one-vs-rest experts, without dsg and k2048. They are calibrated together, by the
// softmax of their log odds, and all classes share the weights w (classes). The kernel, C, γ and the
// weights of the features are chosen by the sum of the classes' losses (choices) up to 4,000 examples,
// then for each class by itself, unless they have more than 512 features. There is no fixed share, and weights of examples do change
// probabilities.
//
// # What is published
//
// A subscriber predicts with a version that grows older, and the expert that is best for the next
// example is often not the best one 1,000 examples later. So published keeps the experts of the
// latest version and scores the following examples with them; of those after the first 512, as few
// as one in eight, drawn (schedule.judges). From these scores it learns the effect of age on each
// expert's log odds (shrinker), and weights. Its calibrations forget fifty times as slowly. Eight
// rules propose weights: the stack for the next example, fixed share, the best expert, a stack
// learned at age, and, without the effect of age, the mean of the slow experts and three single
// experts. Proposals are frozen with each version, judged by the log loss during its life, and
// mixed by a Hedge that counts a version as 250 examples, and the first 50 in proportion to their
// number. The distance from the class rates is capped, by caps that are weighted in the same way
// over all versions so far, each counting alike, so that in the long run published versions are no
// worse than those rates; the first few versions stay close to them.
// All rules but fixed share are linear in L, so the model stays small (ensemble). Experts that
// hardly count are left out, and the kernel SVM m is published alone if that costs at most 1 % of
// the log loss and of the gain over the class rates.
//
// Versions follow at the interval algos.Env.PublishEvery, 2,500 examples if it is 0. Before
// the first version of that age, they follow at powers of two from 64 on, and after a change
// point sooner (schedule).
//
// With late labels, experts and a regression's proposals are judged by what they predicted when the
// example came, the rules half by that and half by what they would predict now.
//
// # Regression
//
// The experts predict numbers (numberExperts): the classifier's experts that can, all kernel
// learners with weighted features, k1024, ridge regression on the inputs and on random features,
// the last label and the mean label. m keeps its newest 2,048 examples. When it is cut, uncut
// keeps those before the cut too, until m is full again. Two rules propose weights for the next
// example: fixed share at four rates, and recursive least squares with forgetting (squares). A
// fixed share mixes them (numbers). All weights sum to 1, and errors are divided by their recent
// size, so that neither the origin nor the scale of the labels matters. Predictions are limited to
// the range of the labels so far and a tenth of it on either side. For published versions a slow
// Hedge mixes these weights, their fixed share, a fixed share learned at age, and the mean. It
// starts near the first three, and the third starts near the second; the mean has to earn its
// weight.
//
// # Cost
//
// Memory: the newest 4,000 examples, 18 MB of kernel values for the challengers (under 1 MB
// without k2048), a version of all experts, and the memory of scs and dsg.
// docs/measured/adaptive.md has the time of each expert.
//
// Kernel learners change at every 16th example, all else at each. The state is a function of
// options, seed and examples, however the examples are divided into calls. Options are
// stable; the package has no other API.
//
// References: Wolpert, Stacked generalization, 1992; Penny and Roberts, Dynamic logistic
// regression, IJCNN 1999; Herbster and Warmuth, Tracking the best expert, 1998; Freund and
// Schapire (Hedge), 1997; Bach and Maloof, Paired learners for concept drift, ICDM 2008;
// Platt, Probabilities for SV machines, 2000; Radhakrishnan et al. (recursive feature machines),
// Science 383, 2024; Lou, Caruana, Gehrke and Hooker (GA2M), KDD 2013.
package adaptive
