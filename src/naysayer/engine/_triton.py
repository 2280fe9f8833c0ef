"""Triton kernels of :mod:`naysayer.engine.kernels`; imported only where triton and a CUDA device are.

NaN must come through, for by it a run is known to have failed: so values are cut off by comparisons, which are false
of NaN, and not by ``tl.maximum``, which gives the other number.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def corrected_risk(
    logits, labels, scales, inverse, gradient, value, scale, n_rows, beta, gamma,
    K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CORRECTION: tl.constexpr, MATRIX: tl.constexpr,
):  # fmt: skip
    """One program per run: r_k = sum_i w_i W_ik l(k, g_i), its correction c, d(c.r)/dg = p sum(A) - A with A = wWc."""
    run = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, ROWS)
    k = tl.arange(0, COLUMNS)
    inside = (i < n_rows)[:, None] & (k < K)[None, :]
    at = (run * n_rows + i)[:, None] * K + k[None, :]
    g = tl.load(logits + at, inside, other=0.0)
    g = tl.where((k < K)[None, :], g, -float("inf"))
    top = tl.max(g, 1)
    e = tl.exp(g - top[:, None])
    total = tl.sum(e, 1)
    loss = tl.where(inside, tl.log(total)[:, None] + top[:, None] - g, 0.0)
    label = tl.load(labels + run * n_rows + i, i < n_rows, other=0)
    w = tl.load(scales + run * (K + 1) + label, i < n_rows, other=0.0)
    if MATRIX:
        rows = tl.load(inverse + label[:, None] * K + k[None, :], inside, other=0.0)
    else:
        rows = tl.where(label[:, None] == k[None, :], 2.0 - K, 1.0)
    rows = tl.where(inside, w[:, None] * rows, 0.0)
    risks = tl.sum(rows * loss, 0)
    c = tl.full((COLUMNS,), 1.0, tl.float32)
    step = 1.0
    if CORRECTION == 1:
        c = tl.where(risks > 0, 1.0, 0.0)
    if CORRECTION == 2:
        below = tl.where((k < K) & (risks < -beta), 1.0, 0.0)
        ascends = tl.max(below, 0) > 0
        c = tl.where(ascends, -below, c)
        step = tl.where(ascends, gamma, 1.0)
    tl.store(value + run, tl.sum(tl.where(k < K, c * risks, 0.0), 0))
    tl.store(scale + run, step)
    rows = rows * c[None, :]
    p = e / total[:, None]
    tl.store(gradient + at, p * tl.sum(rows, 1)[:, None] - rows, inside)


@triton.jit
def mean_loss(
    logits, labels, log_transition, gradient, value, scale, n_rows,
    K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, KIND: tl.constexpr, MATRIX: tl.constexpr,
):  # fmt: skip
    """One program per run: the mean of Forward's loss, or of PC's with the ramp, and its gradient."""
    run = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, ROWS)
    k = tl.arange(0, COLUMNS)
    inside = (i < n_rows)[:, None] & (k < K)[None, :]
    at = (run * n_rows + i)[:, None] * K + k[None, :]
    label = tl.load(labels + run * n_rows + i, i < n_rows, other=0)
    own = label[:, None] == k[None, :]
    g = tl.load(logits + at, inside, other=0.0)
    if KIND == 0:
        g = tl.where((k < K)[None, :], g, -float("inf"))
        top = tl.max(g, 1)
        e = tl.exp(g - top[:, None])
        total = tl.sum(e, 1)
        if MATRIX:
            rest = g + tl.load(log_transition + label[:, None] * K + k[None, :], inside, other=0.0)
        else:
            rest = tl.where(own, -float("inf"), g - tl.log(float(K - 1)))
        rest_top = tl.max(rest, 1)
        rest_e = tl.exp(rest - rest_top[:, None])
        rest_total = tl.sum(rest_e, 1)
        loss = tl.log(total) + top - tl.log(rest_total) - rest_top
        d = e / total[:, None] - rest_e / rest_total[:, None]
    else:
        z = g - tl.sum(tl.where(own, g, 0.0), 1)[:, None]
        others = inside & (own == 0)
        ramp = tl.where(z > 1.0, 0.0, tl.where(z < -1.0, 1.0, 0.5 - 0.5 * z))
        loss = (K - 1) * (tl.sum(tl.where(others, ramp, 0.0), 1) - K / 2 + 1)
        d = tl.where(others & (z >= -1.0) & (z <= 1.0), -0.5 * (K - 1), 0.0)
        d = tl.where(own, -tl.sum(d, 1)[:, None], d)
    tl.store(value + run, tl.sum(tl.where(i < n_rows, loss, 0.0), 0) / n_rows)
    tl.store(scale + run, 1.0)
    tl.store(gradient + at, d / n_rows, inside)


@triton.jit
def head(
    z, b1, w2, b2, logits, n_rows, width, w2_run, w2_class, w2_unit,
    K: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    """One program per run and block of rows: relu(z + b1) W2' + b2, summed over blocks of hidden units."""
    run = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, width, UNITS):
        u = start + tl.arange(0, UNITS)
        inside = (i < n_rows)[:, None] & (u < width)[None, :]
        h = tl.load(z + (run * n_rows + i)[:, None] * width + u[None, :], inside, other=0.0)
        h += tl.load(b1 + run * width + u, u < width, other=0.0)[None, :]
        h = tl.where(h < 0.0, 0.0, h)
        known = (u < width)[:, None] & (k < K)[None, :]
        w = tl.load(w2 + run * w2_run + k[None, :] * w2_class + u[:, None] * w2_unit, known, other=0.0)
        total += tl.dot(h, w)
    total += tl.load(b2 + run * K + k, k < K, other=0.0)[None, :]
    tl.store(logits + (run * n_rows + i)[:, None] * K + k[None, :], total, (i < n_rows)[:, None] & (k < K)[None, :])


@triton.jit
def head_gradients(
    z, b1, w2, d, db1, dw2, db2, n_rows, width, w2_run, w2_class, w2_unit,
    K: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    """One program per run and block of hidden units, over all rows: dz = d W2 [h > 0] in z's place, and the others."""
    run = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    u = block * UNITS + tl.arange(0, UNITS)
    k = tl.arange(0, COLUMNS)
    bias = tl.load(b1 + run * width + u, u < width, other=0.0)
    known = (k < K)[:, None] & (u < width)[None, :]
    at = run * w2_run + k[:, None] * w2_class + u[None, :] * w2_unit
    w = tl.load(w2 + at, known, other=0.0)
    sum_z = tl.zeros((UNITS,), tl.float32)
    sum_w = tl.zeros((COLUMNS, UNITS), tl.float32)
    sum_d = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, n_rows, ROWS):
        i = start + tl.arange(0, ROWS)
        inside = (i < n_rows)[:, None] & (u < width)[None, :]
        place = (run * n_rows + i)[:, None] * width + u[None, :]
        h = tl.load(z + place, inside, other=0.0) + bias[None, :]
        h = tl.where(h < 0.0, 0.0, h)
        g = tl.load(
            d + (run * n_rows + i)[:, None] * K + k[None, :], (i < n_rows)[:, None] & (k < K)[None, :], other=0.0
        )
        dz = tl.where(h > 0, tl.dot(g, w), 0.0)
        tl.store(z + place, dz, inside)
        sum_z += tl.sum(dz, 0)
        sum_w += tl.dot(tl.trans(g), h)
        sum_d += tl.sum(g, 0)
    tl.store(db1 + run * width + u, sum_z, u < width)
    tl.store(dw2 + at, sum_w, known)
    if block == 0:
        tl.store(db2 + run * K + k, sum_d, k < K)


@triton.jit
def gather_images(images, rows, out, width, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + place)
    pixels = tl.load(images + row * width + at, at < width, other=0)
    tl.store(out + place * width + at, pixels.to(tl.float32) * (1.0 / 255.0), at < width)


@triton.jit
def adam(
    parameter, gradient, mean, square, lr, scale, decay, time, size, beta1, beta2, epsilon,
    DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < size
    at = run * size + offset
    rate = tl.load(lr + run) * tl.load(scale + run)
    shrink = tl.load(decay + run)
    t = tl.load(time)
    p = tl.load(parameter + at, inside)
    g = tl.load(gradient + at, inside)
    if DECOUPLED:
        p = p * (1.0 - rate * shrink)
    else:
        g = g + shrink * p
    m = tl.load(mean + at, inside)
    v = tl.load(square + at, inside)
    m = m + (1.0 - beta1) * (g - m)
    v = beta2 * v + (1.0 - beta2) * g * g
    tl.store(mean + at, m, inside)
    tl.store(square + at, v, inside)
    m = m / (1.0 - tl.exp(t * tl.log(beta1)))
    v = v / (1.0 - tl.exp(t * tl.log(beta2)))
    tl.store(parameter + at, p - rate * m / (tl.sqrt(v) + epsilon), inside)


@triton.jit
def sgd(parameter, gradient, velocity, lr, scale, decay, size, momentum, NESTEROV: tl.constexpr, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < size
    at = run * size + offset
    p = tl.load(parameter + at, inside)
    g = tl.load(gradient + at, inside) + tl.load(decay + run) * p
    v = momentum * tl.load(velocity + at, inside) + g
    tl.store(velocity + at, v, inside)
    if NESTEROV:
        v = g + momentum * v
    tl.store(parameter + at, p - tl.load(lr + run) * tl.load(scale + run) * v, inside)
