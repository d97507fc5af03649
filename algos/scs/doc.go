// Package scs is a kernel SVM for streams, by stochastic conjugate subgradients
// on a growing sample (Zhang and Sen, "A Stochastic Conjugate Subgradient
// Algorithm for Kernelized Support Vector Machines", Algorithm 1).
//
// It minimises
//
//	f_S(α) = λ/2 α'Qα + 1/|S| Σ_{i∈S} max(0, 1 − w_i (Qα)_i),   Q_ij = K(z_i, z_j) + bias,
//
// over the coefficients of f(z) = Σ_j α_j (K(z_j, z) + bias). A step
//
//	takes the draws s_k and T_k from the buffer                    (lines 9 and 12)
//	lets S grow by s_k, tests on T_k, recycles T_k into S          (lines 10 to 16)
//	d_k = −Nr{−d_{k−1}, g_k},  t_k by line search,  α += t_k d_k   (lines 5 to 8), some times over
//	in the default preset, ascends in the dual block by block.
//
// In the paper's loop the search precedes the draws and the test; here a step
// begins with the draws, since they are what it waits for. The sequence of
// operations is the same.
//
// Paper → code: S_k hinge.Problem, α Alpha, Qα S, d D, Qd P, a∘w and its
// product Active and Q, δ delta, η1 eta1, η2 eta2, γ radiusRatio,
// m2 decrease, m1 curvature, κ kappa.
//
// # The model in use
//
// A consumer never reaches the end of its stream, so what counts is the model
// between steps. In the default preset a model comes into use only with proof:
//
//   - Its duality gap on the sample, which bounds how far it is from the optimum
//     there, is at most gap times the standard error of the objective, the error
//     that comes from having a sample only (or of a fiftieth of the objective).
//     Report.Certificate is the gap, the gauge gap_bound the bound. Where the
//     blocks of a step do not suffice, the next step goes on, and the sample
//     waits: arrivals that do not fit among the pending draws are sampled out.
//   - The last sixteenth of the draws, which neither it nor the model before has
//     seen, does not show that it is worse: by more than three standard errors of
//     the hinge loss, and with more errors. Steps of less than 480 draws keep
//     none back, nor does a window: they have no test.
//   - It has at most budget support vectors. Where it would have more, the sample
//     gives up its oldest points and grows no further.
//   - Where at most a third of its support vectors, and at most 512, give the same
//     decisions, they are what is put into use (kernel.Reduce): at no support
//     vector does the decision move by more than reduce.
//
// # Growth
//
// The draws T_k also tell what the last doubling of the sample has gained: the
// scores of the sample of before and of the present one are compared on them.
// What a doubling gains is expected to fall by √2 each time, as it does where
// the excess error goes with 1/√|S|; estimate and measurement are combined as in
// a Kalman filter. Once another doubling cannot be expected to gain as much as
// gain, with 95 % confidence, the sample holds its size: every sixteenth labelled
// arrival takes the place of the oldest point. The gauge holds says so. It grows again when
// the error on recent draws is above that since by four standard deviations.
//
// What comes in takes over the coefficient of what goes out, from the point of
// its class that is most like it, and the few points concerned settle among
// themselves before the ascent looks for the worst violations.
//
// # Several classes
//
// With more than two classes there is a classifier for each, against the rest. They
// share the sample, its packed points and the kernel values over the whole of it.
// Each has its own coefficients, duality gap and published model, with the bits of a
// learner of two classes on the same sample. Report.Certificate is the sum of the gaps.
// The sample waits for the slowest classifier, and grows while the predicted class gets
// better. A class that is added has the whole sample as negative examples. Presets
// without the guard have an independent learner for each class instead (package ovr).
//
// # Presets
//
// "paper" follows the printed algorithm: λ = 1, no bias, Euclidean geometry,
// Wolfe search, acceptance as printed, no restart, no recycling. What cannot
// work as printed is repaired: the sign of d_0, the roles of the two constants
// of the search and its one-sided slope condition, the kernel between T and S in
// the validation function, the radius being clamped. Each of these, and the
// acceptance test, has a test in which the printed form fails.
//
// "default" is for use: λ = 1/(C|S|) as in LIBSVM, geometry of the function
// space, exact line search, a sample that doubles, up to t_max at a time, a few
// iterations while it is small, and then block dual ascent.
//
// # Departures from the paper in the default preset, and why
//
//   - Iterations start from −g whenever S has grown: a direction carried over is
//     short, Nr can only shorten it, and the run stalls at a plateau.
//   - The test of a candidate asks whether it is worse than the model in use, not
//     for a share of the decrease on S: at small λ every stage changes the
//     function a lot, and going back costs more than the next stage corrects. A
//     candidate that fails is not put into use, but its coefficients are where the
//     next step starts.
//   - Beyond 2,048 points the iterations are left out: started from the optimum
//     of half the sample, the ascent alone is cheaper.
//   - Only points with margin below 1 + margin, and those with a coefficient, are
//     worked on; others join where they turn out to have a loss.
//   - The dual ascent is exact on blocks; it costs no more than the iterations
//     and replaces hundreds of them.
//
// docs/measured/scs.md has the figures behind each.
//
// # Cost
//
// Memory: the points and about 80 bytes for each, the pending draws, the points
// near the margin once more, and the row cache; no |S|×|S| matrix. A step takes
// about (support + near points that move)·|S| kernel evaluations. Neither the
// sample nor the model grows without end, so the cost of an example does not
// depend on how many there have been.
//
// The state is a function of options, seed and the sequence of calls; the cache
// of kernel rows changes no bit of it and is not stored. Not safe for concurrent
// use; a Model is immutable and may be used from anywhere.
//
// Options are stable; the package has no other API.
package scs
