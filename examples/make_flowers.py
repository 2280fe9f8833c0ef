"""Make flowers.csv and flowers-test.csv: scikit-learn's iris, with the answers to one random yes/no question a row.

Each row was asked "is it c?" of a class c drawn at random: `setosa` is a yes, `!setosa` a no.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

iris = load_iris()
rng = np.random.default_rng(0)
asked = rng.integers(0, 3, len(iris.target))
names = iris.target_names
answers = [names[c] if c == y else f"!{names[c]}" for c, y in zip(asked, iris.target, strict=True)]
order = rng.permutation(len(answers))
for path, rows in (("flowers.csv", order[:100]), ("flowers-test.csv", order[100:])):
    lines = ["sepal_length,sepal_width,petal_length,petal_width,answer"]
    lines += [",".join([*(f"{v:g}" for v in iris.data[i]), answers[i]]) for i in rows]
    Path(__file__).with_name(path).write_text("\n".join(lines) + "\n")
