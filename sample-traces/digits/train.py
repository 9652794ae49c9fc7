#!/usr/bin/env python3
"""Trains the small convolutional network of the sample `digits.kine`, and writes it with its held-out images.

Needs numpy and scikit-learn (see requirements.txt) and nothing else; the data ships inside scikit-learn. Seeds are
fixed and everything runs on one thread, so that the same versions write the same bytes.

    image 8x8 -> conv 3x3, 8 channels, relu -> max pool 2x2 -> conv 3x3, 16 channels, relu -> dense, 10 scores

Writes, beside this file:
    weights/NAME.npy         f32: conv1.weight [8,1,3,3], conv1.bias [8], conv2.weight [16,8,3,3], conv2.bias [16],
                             dense.weight [10,256], dense.bias [10]
    held-out/images.npy      u8 [360,8,8]: ink from 0 to 16, as scikit-learn has it. The network reads ink / 16
    held-out/labels.npy      u8 [360]: the digit that a person saw
    held-out/scores.npy      f32 [360,10]: what `forward`, in 32-bit floats, makes of them
    digit.npy                one of them alone, a seven: f32 [8,8] as the network reads it
"""
import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import pathlib

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = 360
SEED = 1797
EPOCHS = 60
BATCH = 32
C1, C2 = 8, 16


def patches(x):
    """[n,c,h,w] to [n,h,w,c*9]: each pixel's 3x3 neighbourhood, zeros outside, channel first."""
    n, c, h, w = x.shape
    padded = np.zeros((n, c, h + 2, w + 2), x.dtype)
    padded[:, :, 1:-1, 1:-1] = x
    out = np.empty((n, h, w, c, 3, 3), x.dtype)
    for dy in range(3):
        for dx in range(3):
            out[:, :, :, :, dy, dx] = padded[:, :, dy : dy + h, dx : dx + w].transpose(0, 2, 3, 1)
    return out.reshape(n, h, w, c * 9)


def conv(x, weight, bias):
    """A 3x3 convolution with zeros outside. Gives the patches too, which training needs."""
    p = patches(x)
    y = p @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), p


def forward(w, x):
    """The network. `x` [n,1,8,8]; gives the scores [n,10] and what training needs."""
    z1, p1 = conv(x, w["conv1.weight"], w["conv1.bias"])
    a1 = np.maximum(z1, 0)
    n = len(x)
    windows = a1.reshape(n, C1, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, C1, 4, 4, 4)
    pooled = windows.max(axis=-1)
    z2, p2 = conv(pooled, w["conv2.weight"], w["conv2.bias"])
    a2 = np.maximum(z2, 0).reshape(n, -1)
    scores = a2 @ w["dense.weight"].T + w["dense.bias"]
    return scores, (p1, z1, windows, p2, z2, a2)


def gradients(w, x, labels):
    """Cross-entropy's gradient by every weight."""
    scores, (p1, z1, windows, p2, z2, a2) = forward(w, x)
    n = len(x)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    d = e / e.sum(axis=1, keepdims=True)
    d[np.arange(n), labels] -= 1
    d /= n
    g = {"dense.weight": d.T @ a2, "dense.bias": d.sum(axis=0)}
    dz2 = (d @ w["dense.weight"]).reshape(z2.shape) * (z2 > 0)
    flat2 = dz2.transpose(0, 2, 3, 1).reshape(-1, C2)
    g["conv2.weight"] = (flat2.T @ p2.reshape(len(flat2), -1)).reshape(w["conv2.weight"].shape)
    g["conv2.bias"] = flat2.sum(axis=0)
    # Back through the second convolution: each patch's share returns to the pixel that it came from.
    dp2 = (flat2 @ w["conv2.weight"].reshape(C2, -1)).reshape(n, 4, 4, C1, 3, 3)
    padded = np.zeros((n, C1, 6, 6), x.dtype)
    for dy in range(3):
        for dx in range(3):
            padded[:, :, dy : dy + 4, dx : dx + 4] += dp2[:, :, :, :, dy, dx].transpose(0, 3, 1, 2)
    dpooled = padded[:, :, 1:-1, 1:-1]
    first = np.argmax(windows, axis=-1)[..., None] == np.arange(4)
    dwindows = first * dpooled[..., None]
    da1 = dwindows.reshape(n, C1, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, C1, 8, 8)
    flat1 = (da1 * (z1 > 0)).transpose(0, 2, 3, 1).reshape(-1, C1)
    g["conv1.weight"] = (flat1.T @ p1.reshape(len(flat1), -1)).reshape(w["conv1.weight"].shape)
    g["conv1.bias"] = flat1.sum(axis=0)
    return g


def moved(rng, x):
    """Each image moved by up to a pixel either way: a hand does not always hit the middle."""
    out = np.zeros_like(x)
    for i, (dy, dx) in enumerate(rng.integers(-1, 2, size=(len(x), 2))):
        src = x[i, 0, max(0, -dy) : 8 - max(0, dy), max(0, -dx) : 8 - max(0, dx)]
        out[i, 0, max(0, dy) : 8 + min(0, dy), max(0, dx) : 8 + min(0, dx)] = src
    return out


def train(x, labels):
    """Adam with a rate that falls to nothing, in 64-bit floats; gives 32-bit weights."""
    rng = np.random.default_rng(SEED)
    shapes = {
        "conv1.weight": (C1, 1, 3, 3), "conv1.bias": (C1,),
        "conv2.weight": (C2, C1, 3, 3), "conv2.bias": (C2,),
        "dense.weight": (10, C2 * 16), "dense.bias": (10,),
    }
    w = {k: rng.normal(0, np.sqrt(2 / np.prod(s[1:])), s) if len(s) > 1 else np.zeros(s) for k, s in shapes.items()}
    m = {k: np.zeros(s) for k, s in shapes.items()}
    v = {k: np.zeros(s) for k, s in shapes.items()}
    steps = EPOCHS * (len(x) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for at in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            g = gradients(w, moved(rng, x[chosen]), labels[chosen])
            step += 1
            rate = 4e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k in w:
                g[k] = g[k] + 1e-4 * w[k]
                m[k] = 0.9 * m[k] + 0.1 * g[k]
                v[k] = 0.999 * v[k] + 0.001 * g[k] ** 2
                w[k] = w[k] - rate * (m[k] / (1 - 0.9**step)) / (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8)
    return {k: a.astype(np.float32) for k, a in w.items()}


def main():
    data = load_digits()
    ink = data.images.astype(np.uint8)
    labels = data.target.astype(np.uint8)
    assert ink.shape == (1797, 8, 8) and ink.max() == 16
    train_ink, held_ink, train_labels, held_labels = train_test_split(
        ink, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    w = train(train_ink[:, None].astype(np.float64) / 16, train_labels)
    images = held_ink.astype(np.float32) / np.float32(16)
    scores, _ = forward(w, images[:, None])
    assert scores.dtype == np.float32
    right = int((scores.argmax(axis=1) == held_labels).sum())
    top = np.sort(scores, axis=1)
    gap = float((top[:, -1] - top[:, -2]).min())
    print(f"right on {right} of {HELD_OUT} held-out images ({100 * right / HELD_OUT:.1f} %)")
    print(f"scores from {scores.min():.3f} to {scores.max():.3f}; least distance of the best two of an image {gap:.4f}")

    (HERE / "weights").mkdir(exist_ok=True)
    (HERE / "held-out").mkdir(exist_ok=True)
    for k, a in w.items():
        np.save(HERE / "weights" / f"{k}.npy", a)
    np.save(HERE / "held-out" / "images.npy", held_ink)
    np.save(HERE / "held-out" / "labels.npy", held_labels)
    np.save(HERE / "held-out" / "scores.npy", scores)
    np.save(HERE / "digit.npy", images[11])


if __name__ == "__main__":
    main()
