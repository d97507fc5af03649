// Package scs learns a kernel SVM from a stream by stochastic conjugate
// subgradients on a growing sample (Zhang and Sen, "A Stochastic Conjugate
// Subgradient Algorithm for Kernelized Support Vector Machines", Algorithm 1).
//
// It minimises
//
//	f_S(α) = λ/2 α'Qα + 1/|S| Σ_{i∈S} max(0, 1 − w_i (Qα)_i),   Q_ij = K(z_i, z_j) + bias,
//
// over the coefficients of f(z) = Σ_j α_j (K(z_j, z) + bias). A step
//
//	takes the draws s_k and T_k from the buffer                    (lines 9 and 12)
//	adds s_k to S, tests on T_k, recycles T_k into S               (lines 10 to 16)
//	d_k = −Nr{−d_{k−1}, g_k},  t_k by line search,  α += t_k d_k   (lines 5 to 8), a few times
//	in the default preset, ascends in the dual block by block.
//
// In the paper's loop the line search comes before the draws and the test. Here a
// step begins with the draws, because it waits for them. The sequence of operations
// is the same.
//
// Paper → code: S_k hinge.Problem, α Alpha, Qα S, d D, Qd P, a∘w and its product
// with Q Active and Q, δ delta, η1 eta1, η2 eta2, γ radiusRatio, m2 decrease, m1
// curvature.
//
// # The model in use
//
// A consumer never reaches the end of its stream, so the model that matters is the
// one in use between steps. In the default preset a new model is put into use only
// if it passes these checks:
//
//   - Its duality gap on the sample, which bounds its distance from the optimum there, is at most
//     gap times the standard error of the objective (or a fiftieth of the objective). A smaller
//     gap would be lost in the sampling error. Report.Certificate is the gap, the gauge gap_bound
//     the bound. If the blocks of a step do not suffice, the next step continues, and the sample
//     waits: arrivals that do not fit among the pending draws are sampled out.
//   - It is not significantly worse than the model in use on the last sixteenth of the draws,
//     which neither of them has seen. Worse means: more errors, and a hinge loss that is higher
//     by more than three standard errors. Steps of fewer than 480 draws, and windows, reserve no
//     draws and skip this test.
//   - It has at most budget support vectors. If it has more, the sample drops its oldest points
//     and stops growing.
//   - If a reduced set of at most a third of its support vectors, and at most 512 points, gives
//     nearly the same decisions, the reduced set is put into use (kernel.Reduce). No decision at
//     a support vector changes by more than the option reduce.
//
// # Growth
//
// The draws T_k also measure how much accuracy the last doubling of the sample
// gained: they are scored with the coefficients from before the doubling and with
// the present ones. Each doubling is expected to gain 1/√2 of the previous gain,
// which holds if the excess error is proportional to 1/√|S|. A Kalman filter combines
// this prediction with the measurement. Once the upper end of a 95 % confidence
// interval for the next gain is below the option gain, growth stops and the gauge
// holds is 1: from then on every sixteenth labelled arrival replaces the oldest
// point. Growth resumes when the error on recent draws exceeds the average error
// since growth stopped by four standard deviations.
//
// The coefficient of a point that leaves a full sample passes to the most similar
// new point of its class. These few points are optimised among themselves before
// the ascent selects the worst violations.
//
// # Several classes
//
// With more than two classes there is one one-vs-rest classifier per class. The
// classifiers share the sample, its packed points and the kernel values over the
// whole sample. Each has its own coefficients, duality gap and model in use, bit
// for bit the same as in a two-class learner on the same sample. Report.Certificate
// is the sum of the gaps. The sample waits for the slowest classifier, and grows
// while this improves the predicted class. A class that is added later starts with
// the whole sample as negative examples. Presets without the guard use independent
// learners instead, one per class (package ovr).
//
// # Presets
//
// "paper" follows the printed algorithm: λ = 1, no bias, Euclidean geometry, Wolfe
// search, acceptance as printed, no restart, no recycling. The parts that cannot work
// as printed are repaired: the sign of d_0, the roles of the two constants of the
// search and its one-sided slope condition, the kernel between T and S in the
// validation function, the clamping of the radius. The sample grows by 16 points a
// step, not as Theorem 3.3 says, because its constant κ is not known.
//
// "default" is meant for use: λ = 1/(C|S|) as in LIBSVM, the geometry of the
// function space, exact line search, a sample that doubles, by at most t_max at a
// time, a few iterations while it is small, then block dual ascent.
//
// # Departures from the paper in the default preset, and why
//
//   - Iterations restart from −g whenever S has grown: a direction carried over is short, Nr can
//     only shorten it, and the run stalls on a plateau.
//   - A candidate is tested for being worse than the model in use, not for achieving some fraction
//     of the decrease on S. With a small λ every stage changes the function a lot, and reverting
//     costs more than correcting it in the next stage. A rejected candidate is not put into use,
//     but the next step starts from its coefficients.
//   - Beyond 2,048 points the iterations are skipped: started from the optimum of half the
//     sample, the ascent alone is cheaper.
//   - Only points with a margin below 1 + margin and points with a coefficient are optimised;
//     others join once they turn out to have a loss.
//   - The dual ascent is exact on blocks. It costs no more than the iterations, and replaces
//     hundreds of them.
//
// docs/measured/scs.md has the measurements for each.
//
// # Cost
//
// Memory: the points and about 80 bytes for each, the pending draws, a second copy
// of the points near the margin, and the row cache; no |S|×|S| matrix. A step takes
// about (support + near points that move)·|S| kernel evaluations. Sample and model
// are bounded, so the cost per example does not depend on the number of examples so
// far.
//
// The state is a function of options, seed and the sequence of calls. The cache of
// kernel rows changes no bit of it and is not stored. A Learner is not safe for
// concurrent use; a Model is immutable and may be used from any goroutine.
//
// Options are stable; the package has no other API.
package scs
