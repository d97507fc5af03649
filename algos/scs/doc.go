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
//	tests the candidate of the step before on fresh draws T_k     (lines 8 to 12)
//	lets S grow, by T_k once it has been used                     (line 7, recycling)
//	d_k = −Nr{−d_{k−1}, g_k},  t_k by line search,  α += t_k d_k   (lines 4 to 6), some times over
//	in the default preset, ascends in the dual block by block.
//
// In the paper's loop the search precedes the draws and the test; here a step
// begins with the draws, since they are what it waits for. The sequence of
// operations is the same.
//
// Paper → code: S_k hinge.Problem, α Alpha, Qα S, d D, Qd P, a∘w and its
// product Active and Q, δ delta, η1 eta1, η2 eta2, γ gam, m2 c1, m1 c2, κ kappa.
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
// space, exact line search, sample doubling up to t_max at a time, a few
// iterations on the points near the margin, and then block dual ascent, which
// leaves a point that carries a duality gap.
//
// # Departures from the paper in the default preset, and why
//
//   - Iterations start from −g whenever S has grown: a direction carried over is
//     short, Nr can only shorten it, and the run stalls at a plateau.
//   - Candidates are not put to the test: at small λ every stage changes the
//     function a lot, and going back costs more than the next stage corrects.
//     T_k still bounds the pace, and its objective is reported before T_k is
//     learned from.
//   - Once the sample is larger than warm the iterations are left out: started
//     from the optimum of half the sample, the ascent alone is cheaper.
//   - Only points with margin below 1 + margin, and those with a coefficient, are
//     worked on; the others have no loss and are checked afterwards.
//   - The dual ascent is exact on blocks; it costs no more than the iterations
//     and replaces hundreds of them.
//
// docs/scs.md has the figures behind each.
//
// # Cost
//
// Memory: the points, about 80 bytes each beside, the pending draws, the points
// near the margin once more, and the row cache; no |S|×|S| matrix. A step takes
// about (support + near points that move)·|S| kernel evaluations. With the
// sample at max_sample a step comes every t_max examples, so that work per
// example is bounded.
//
// The state is a function of options, seed and the sequence of calls; the cache
// of kernel rows changes no bit of it and is not stored. Not safe for concurrent
// use; a Model is immutable and may be used from anywhere.
package scs
