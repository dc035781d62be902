"""The first piece of docs/quickstart.md: no network, no torch."""

import numpy as np

import sluice

workers = [np.random.default_rng(rank).standard_normal(1_000_000, dtype="f4") for rank in range(4)]
mean = sluice.reduce(workers, codec="tide:bits=4")

exact = np.mean(workers, axis=0)
print(f"error energy {np.sum((mean - exact) ** 2) / np.sum(exact ** 2):.4f} of the mean's")
