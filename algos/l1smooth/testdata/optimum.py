#!/usr/bin/env python3
"""Writes optimum.json: five small problems with their optima.

    ~/.cache/streamsvm/peers/bin/python algos/l1smooth/testdata/optimum.py > algos/l1smooth/testdata/optimum.json

Needs numpy and scipy. Problems with lambda = 0 are linear programmes, solved by
HiGHS; the others are solved in the dual by bounded quasi-Newton steps and
polished on the active constraints, and accepted only with a duality gap below
1e-11, which is in the file.

    min lambda/2 |w|^2 + 1/N sum max(0, 1 - y <w,x>) + mu |w|_1

The first coordinate is the constant feature of the bias. Features are
multiples of 1/64, so that float32 holds them exactly.
"""
import json, sys
import numpy as np
from scipy.optimize import linprog, minimize


def problem(seed, n, m, noise, sparse):
    r = np.random.default_rng(seed)
    w = r.normal(size=m) * (r.random(m) < sparse)
    x = np.round(r.normal(size=(n, m)) * 64) / 64
    y = np.where(x @ w + noise * r.normal(size=n) > 0.2, 1.0, -1.0)
    return x, y


def objective(w, z, lam, mu):
    return lam / 2 * w @ w + np.maximum(0, 1 - z @ w).mean() + mu * np.abs(w).sum()


def lp(z, mu):
    """w = p - q, slack xi."""
    n, m = z.shape
    c = np.concatenate([np.full(2 * m, mu), np.full(n, 1 / n)])
    a = np.hstack([-z, z, -np.eye(n)])
    s = linprog(c, A_ub=a, b_ub=-np.ones(n), bounds=(0, None), method="highs-ds",
                options=dict(primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10))
    w = s.x[:m] - s.x[m:2 * m]
    theta = -s.ineqlin.marginals * n
    theta = np.clip(theta, 0, 1)
    v = z.T @ theta / n
    theta *= min(1, mu / np.abs(v).max())
    return w, theta.mean()


def qp(z, lam, mu):
    """The dual in theta, 0 <= theta <= 1: maximise mean theta - |S_mu(v)|^2/(2 lam)."""
    n, m = z.shape
    shrink = lambda v: np.sign(v) * np.maximum(np.abs(v) - mu, 0)

    def f(t):
        s = shrink(z.T @ t / n)
        return s @ s / (2 * lam) - t.mean(), (z @ s / lam - 1) / n

    t = np.full(n, 0.5)
    for _ in range(20):
        t = minimize(f, t, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * n,
                     options=dict(maxiter=100000, maxfun=10**6, ftol=0, gtol=1e-15, maxcor=50)).x
    # Polish: theta strictly inside has margin 1; w is 0 where |v| < mu.
    w = shrink(z.T @ t / n) / lam
    best = (objective(w, z, lam, mu) + f(t)[0], w, t)
    for eps in [1e-3, 1e-4, 1e-5, 1e-6, 1e-7]:
        inside = (t > eps) & (t < 1 - eps)
        act = np.abs(z.T @ t / n) > mu
        up = t >= 1 - eps
        k, a = inside.sum(), act.sum()
        # lam w_A + mu sign(w_A) = (z_up' 1 + z_in' th)/n ; z_in,A w_A = 1
        A = np.zeros((a + k, a + k))
        A[:a, :a] = lam * np.eye(a)
        A[:a, a:] = -z[inside][:, act].T / n
        A[a:, :a] = z[inside][:, act]
        b = np.concatenate([z[up][:, act].sum(0) / n - mu * np.sign(w[act]), np.ones(k)])
        sol = np.linalg.lstsq(A, b, rcond=None)[0]
        w2, t2 = np.zeros(m), up.astype(float)
        w2[act] = sol[:a]
        t2[inside] = np.clip(sol[a:], 0, 1)
        gap = objective(w2, z, lam, mu) + f(t2)[0]
        if gap < best[0]:
            best = (gap, w2, t2)
    return best[1], -f(best[2])[0]


out = []
for seed, n, m, noise, sparse, lam, mu in [
        (1, 60, 5, 0.5, 1.0, 0.1, 0.0),
        (2, 80, 10, 0.3, 0.4, 0.01, 0.02),
        (3, 100, 8, 0.5, 0.5, 0.0, 0.01),
        (4, 40, 60, 0.1, 0.1, 0.0, 0.05),
        (5, 150, 20, 1.0, 0.3, 1e-3, 5e-3)]:
    x, y = problem(seed, n, m, noise, sparse)
    z = y[:, None] * np.hstack([np.ones((n, 1)), x])
    w, dual = lp(z, mu) if lam == 0 else qp(z, lam, mu)
    f = objective(w, z, lam, mu)
    print(seed, f, f - dual, (w != 0).sum(), file=sys.stderr)
    assert f - dual < 1e-11, (seed, f - dual)
    out.append(dict(lam=lam, mu=mu, x=x.tolist(), y=y.tolist(), w=w.tolist(), objective=f, gap=f - dual))
json.dump(out, sys.stdout)
print()
