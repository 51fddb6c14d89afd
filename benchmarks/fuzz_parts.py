"""What the kernels of `benchmarks/fuzz_kernels.py` are put together of: lines of Triton, by what they do."""

TYPES = {
    "fp16": ("*fp16:16", "tl.float16", (32, 64)),
    "bf16": ("*bf16:16", "tl.bfloat16", (32, 64)),
    "tf32": ("*fp32:16", "tl.float32", (16, 32)),
    "e4m3": ("*fp8e4nv:16", "tl.float8e4nv", (32, 64)),
    "e5m2": ("*fp8e5:16", "tl.float8e5", (32, 64)),
    "int8": ("*i8:16", "tl.int8", (32, 64)),
}
"""Of operands: of the array, of the elements, and depths of a tile."""
LEFT = {
    "descriptor": "x = a_desc.load([row, k.to(tl.int32)])",
    "masked": "x = tl.load(a + m[:, None] * K + kk[None, :], tall[:, None] & (kk < K)[None, :], other=0.0)",
    "plain": "x = tl.load(a + m[:, None] * stride + kk[None, :])",
    "wide": "x = tl.load(a + m.to(tl.int64)[:, None] * stride + kk[None, :], (kk < K)[None, :], other=0.0)",
    "gathered": "x = tl.load(a + tl.load(rows + m)[:, None] * K + kk[None, :], (kk < K)[None, :], other=0.0)",
    "carried": "x = tl.load(walk, (kk < K)[None, :], other=0.0)\nwalk += BLOCK_K",
    "nibbles": """\
here = k // 2 + hs
both = tl.load(packed + m[:, None] * (K // 2) + here[None, :], (here < K // 2)[None, :], other=0)
x = tl.join((both & 15).to(tl.float32), (both >> 4).to(tl.float32)).reshape(BLOCK_M, BLOCK_K).to(TYPE)""",
    "halved": """\
pairs = tl.load(a + m[:, None] * K + (2 * k + js)[None, :], ((2 * k + js) < K)[None, :], other=0.0)
x, _ = tl.split(pairs.reshape(BLOCK_M, BLOCK_K, 2))""",
    "conditional": """\
if k + BLOCK_K > K:
    x = tl.load(a + m[:, None] * K + kk[None, :], (kk < K)[None, :], other=0.0)
else:
    x = tl.load(a + m[:, None] * K + kk[None, :])""",
    "wrapped": "x = tl.load(a + (m % M)[:, None] * K + kk[None, :], (kk < K)[None, :], other=0.0)",
    "turned": "x = tl.load(a + kk[:, None] * M + m[None, :], (kk < K)[:, None] & tall[None, :], other=0.0).T",
    "bytes": """\
x = tl.load(packed + m[:, None] * K + kk[None, :], (kk < K)[None, :], other=0).to(tl.float32).to(TYPE)""",
    "weighted": """\
x = tl.load(a + m[:, None] * K + kk[None, :], (kk < K)[None, :], other=0.0)
x = (x.to(tl.float32) * tl.load(weights + kk, kk < K, other=0.0)[None, :]).to(TYPE)""",
    "shifted": """\
x = tl.load(a + m[:, None] * K + kk[None, :] - 1, (kk >= 1)[None, :] & (kk <= K)[None, :], other=0.0)""",
}
RIGHT = {
    "transposed": "y = b_desc.load([col, k.to(tl.int32)]).T",
    "straight": "y = c_desc.load([k.to(tl.int32), col])",
    "masked": """\
both = (kk < K)[:, None] & wide[None, :]
y = tl.load(b + kk[:, None] * N + n[None, :], both, other=0.0)""",
    "masked transposed": """\
both = (kk < K)[:, None] & wide[None, :]
y = tl.load(b + n[None, :] * K + kk[:, None], both, other=0.0)""",
    "paged": """\
page = tl.load(rows + k // BLOCK_K)
y = tl.load(b + (page * BLOCK_K + ks)[:, None] * N + n[None, :], wide[None, :], other=0.0)""",
    "shifts": """\
words = tl.load(codes + (kk // 8)[:, None] * N + n[None, :], (kk < K)[:, None] & wide[None, :], other=0)
y = (words >> ((kk % 8) * 4)[:, None] & 15).to(tl.float32).to(TYPE)""",
    "scaled bytes": """\
both = (kk < K)[:, None] & wide[None, :]
y = tl.load(packed + kk[:, None] * N + n[None, :], both, other=0).to(tl.float32)
y = (y * tl.load(weights + n, wide, other=0.0)[None, :]).to(TYPE)""",
    "grouped": """\
y = tl.load(b + tl.load(rows + tl.program_id(1)) * K * N + kk[:, None] * N + n[None, :],
            (kk < K)[:, None] & wide[None, :], other=0.0)""",
}
LOOPS = {
    "steps": "for k in range(0, K, BLOCK_K):",
    "counted": "for i in range(tl.cdiv(K, BLOCK_K)):\n    k = i * BLOCK_K",
    "loaded": """\
at = bounds + tl.program_id(1)
for i in range(tl.load(at), tl.load(at + 1)):
    k = i * BLOCK_K""",
    "backward": "for i in range(tl.cdiv(K, BLOCK_K) - 1, -1, -1):\n    k = i * BLOCK_K",
    "down": "for k in range((tl.cdiv(K, BLOCK_K) - 1) * BLOCK_K, -1, -BLOCK_K):",
    "while": "left = tl.cdiv(K, BLOCK_K)\nwhile left > 0:\n    left -= 1\n    k = left * BLOCK_K",
    "strided": "for k in range(tl.program_id(1) * BLOCK_K, K, 2 * BLOCK_K):",
    "causal": "for k in range(0, min(K, row + BLOCK_M), BLOCK_K):",
    "long": "for k in range(tl.program_id(1).to(tl.int64) * BLOCK_K, K.to(tl.int64), BLOCK_K):",
    "nested": "for t in range(taps):\n  for k in range(t * BLOCK_K, K, BLOCK_K):",
    "tiles": """\
for t in range(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.num_programs(0)):
  for k in range(0, K, BLOCK_K):""",
    "guarded": "if K > 2 * BLOCK_K:\n  for k in range(0, K, BLOCK_K):",
    "two": """\
middle = K // (2 * BLOCK_K) * BLOCK_K
for part in tl.static_range(2):
  for k in range(middle * part, middle + (K - middle) * part, BLOCK_K):""",
    "varlen": """\
start = tl.load(bounds + tl.program_id(1))
for k in range(0, tl.load(bounds + tl.program_id(1) + 1) - start, BLOCK_K):""",
}
BODIES = {
    "plain": "acc = tl.dot(x, y, acc, out_dtype=ACC)",
    "skipped": "if tl.load(flags + k // BLOCK_K) % 2 == 0:\n    acc = tl.dot(x, y, acc, out_dtype=ACC)",
    "either": """\
if tl.load(flags + k // BLOCK_K) % 2 == 0:
    acc = tl.dot(x, y, acc, out_dtype=ACC)
else:
    acc = tl.dot(x, y * 2, acc, out_dtype=ACC)""",
    "scanned": "s = tl.dot(x, y, out_dtype=ACC)\nacc += tl.cumsum(s, 1)",
    "indices": "s = tl.dot(x, y, out_dtype=ACC)\nfirst = tl.minimum(first, tl.argmax(s, 1))\nacc += s",
    "stepping": """\
w = tl.load(weights + base + cs)
base = tl.where(k % (3 * BLOCK_K) == 0, base + BLOCK_N, base)
acc += tl.dot(x, y, out_dtype=ACC) * w[None, :].to(ACC)""",
    "rivals": """\
s = tl.dot(x, y, out_dtype=ACC)
tl.atomic_add(sums + n, tl.sum(s, 0), wide)
tl.atomic_max(sums + n, tl.max(s, 0), wide)
acc += s""",
    "fading": "acc = acc * 2 + tl.dot(x, y, out_dtype=ACC)",
    "highest": "s = tl.dot(x, y, out_dtype=ACC)\nbest = tl.maximum(best, tl.max(s, 1))\nacc += s",
    "sums": "s = tl.dot(x, y, out_dtype=ACC)\ntotal += tl.sum(s, 0)\nacc = tl.maximum(acc, s)",
    "lagging": "s = tl.dot(x, y, out_dtype=ACC)\nacc += tl.where(before > 0, s, before)\nbefore = s",
    "counted": "acc = tl.dot(x, y, acc, out_dtype=ACC)\ncount += 1 + k",
    "kept": """\
s = tl.dot(x, y, out_dtype=ACC)
tl.store(notes + (k * BLOCK_M + m)[:, None] * N + n[None, :], s, wide[None, :])
acc += s""",
    "twice": """\
s = tl.dot(x, y, out_dtype=ACC)
tl.store(notes + m[:, None] * N + n[None, :], s, wide[None, :])
acc = tl.dot(x, y * 2, acc, out_dtype=ACC)
tl.store(notes + m[:, None] * N + n[None, :], acc, wide[None, :] & (s > 0))""",
    "added": "s = tl.dot(x, y, out_dtype=ACC)\ntl.atomic_add(sums + n, tl.sum(s, 0), wide)\nacc += s",
    "pair": "acc = tl.dot(x, y, acc, out_dtype=ACC)\nother = tl.dot(x, y * 2, other, out_dtype=ACC)",
    "peeked": "seen += tl.sum(acc, 1)\nacc = tl.dot(x, y, acc, out_dtype=ACC)",
    "chained": """\
s = tl.dot(x, y, out_dtype=ACC)
z = tl.load(v + (col + cs)[:, None] * BLOCK_N + cs[None, :])
acc = tl.dot(s.to(TYPE), z, acc, out_dtype=ACC)""",
    "online": """\
s = tl.dot(x, y, out_dtype=ACC)
top = tl.maximum(peak, tl.max(s, 1))
p = tl.exp2((s - top[:, None]) * 0.125)
rate = tl.exp2((peak - top) * 0.125)
weight = weight * rate + tl.sum(p, 1)
z = tl.load(v + (col + cs)[:, None] * BLOCK_N + cs[None, :])
acc = tl.dot(p.to(TYPE), z, acc * rate[:, None], out_dtype=ACC)
peak = top""",
    "windowed": "s = tl.dot(x, y, out_dtype=ACC)\nacc += tl.where((k + m)[:, None] >= n[None, :], s, 0)",
    "block scales": """\
s = tl.dot(x, y, out_dtype=ACC)
acc += s * tl.load(weights + m * 4 + k // BLOCK_K)[:, None] * tl.load(weights + k // BLOCK_K)""",
    "state": """\
z = tl.load(v + cs[:, None] * BLOCK_N + cs[None, :])
out = tl.dot(acc.to(TYPE), z, out_dtype=ACC)
tl.store(notes + (k * BLOCK_M + m)[:, None] * N + n[None, :], out, wide[None, :])
acc = acc * tl.exp2(tl.load(weights + k // BLOCK_K) * -0.125) + tl.dot(x, y, out_dtype=ACC)""",
    "gram": """\
total += tl.sum(tl.dot(x, tl.trans(x), out_dtype=ACC), 1)
acc = tl.dot(x, y, acc, out_dtype=ACC)""",
    "both ways": """\
acc = tl.dot(x, y, acc, out_dtype=ACC)
z = tl.load(v + m[:, None] * BLOCK_N + cs[None, :], tall[:, None], other=0.0)
other += tl.dot(tl.trans(x), z, out_dtype=ACC)""",
    "swapped": """\
left, right = tl.split(tl.dot(x, y, out_dtype=ACC).reshape(BLOCK_M, BLOCK_N // 2, 2))
acc += tl.join(-right, left).reshape(BLOCK_M, BLOCK_N)""",
    "softcap": """\
s = tl.dot(x, y, out_dtype=ACC) * 0.03125
s = (1 - 2 / (1 + tl.exp(2 * s))) * 8
acc += tl.where((k + m)[:, None] >= n[None, :], s, 0)""",
    "normed": """\
total += tl.sum(x.to(ACC) * x.to(ACC), 1)
acc = tl.dot(x, y, acc, out_dtype=ACC)""",
}
BEFORE = {
    "highest": "best = tl.full([BLOCK_M], -1000, ACC)",
    "sums": "total = tl.zeros([BLOCK_N], ACC)",
    "indices": "first = tl.full([BLOCK_M], 1000, tl.int32)",
    "stepping": "base = 0",
    "carried": "walk = a + m[:, None] * K + ks[None, :]",
    "nibbles": "hs = tl.arange(0, BLOCK_K // 2)",
    "halved": "js = tl.arange(0, 2 * BLOCK_K)",
    "lagging": "before = tl.zeros([BLOCK_M, BLOCK_N], ACC)",
    "counted": "count = 0",
    "pair": "other = tl.zeros([BLOCK_M, BLOCK_N], ACC)",
    "peeked": "seen = tl.zeros([BLOCK_M], ACC)",
    "online": "peak = tl.full([BLOCK_M], -1000, ACC)\nweight = tl.full([BLOCK_M], 1, ACC)",
    "gram": "total = tl.zeros([BLOCK_M], ACC)",
    "normed": "total = tl.zeros([BLOCK_M], ACC)",
    "both ways": "other = tl.zeros([BLOCK_K, BLOCK_N], ACC)",
}
BEHIND = {
    "highest": "tl.store(o + m, best.to(tl.float32))",
    "sums": "tl.store(o + n, total.to(tl.float32))",
    "counted": "acc += count.to(ACC)",
    "indices": "tl.store(rows + m, first, tall)",
    "pair": "acc += tl.maximum(other, 1)",
    "peeked": "acc += seen[:, None]",
    "online": "acc = acc / weight[:, None]\ntl.store(o + m, peak + tl.log2(weight))",
    "gram": "tl.store(o + m, total.to(tl.float32), tall)",
    "normed": "acc = acc * tl.rsqrt(total + 1)[:, None]",
    "both ways": "tl.store(notes + ks[:, None] * N + n[None, :], other, wide[None, :])",
}
STORES = {
    "descriptor": "d_desc.store([row, col], acc.to(tl.float32))",
    "masked": "tl.store(at, acc.to(tl.float32), inside)",
    "again": "tl.store(at, tl.load(at, inside, other=0.0) * 0.5 + acc, inside)",
    "atomic": "tl.atomic_add(at, acc.to(tl.float32), inside)",
    "reloaded": """\
tl.store(at, acc.to(tl.float32), inside)
tl.debug_barrier()
seen_again = tl.load(at, inside, other=0.0)
tl.store(notes + m[:, None] * N + n[None, :], seen_again * 2, inside)""",
    "two": """\
d_desc.store([row, col], acc.to(tl.float32))
tl.store(o + m, tl.sum(acc, 1).to(tl.float32), tall)""",
}
RETURNS = (
    *("", "", ""),
    "if row >= M:\n    return",
    "if tl.load(flags + tl.program_id(1)) % 4 == 3:\n    return",
)
POINTERS = {
    **dict.fromkeys(("d", "o", "notes", "sums", "weights"), "*fp32:16"),
    "packed": "*i8:16",
    "codes": "*i32:16",
    **dict.fromkeys(("rows", "bounds", "flags"), "*i32:16"),
}
SCALARS = ("M", "N", "K", "stride")
WHOLE = (
    *("highest", "lagging", "peeked", "sums", "added", "online", "chained", "rivals", "scanned"),
    *("block scales", "state", "gram", "both ways", "softcap", "normed"),
)
UNFIT = {"int8": WHOLE, "tf32": ("twice", "indices")}
"""Bodies that a type does not have: sums of floats, or operands of 8 bits from an accumulator; masks by the
sign of what is rounded."""
