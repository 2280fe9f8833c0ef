"""scikit-learn's own search over a classifier of ours, each fit on a core of a Ray cluster.

pip install 'naysayer[ray]'
python examples/ray_search.py                               # Ray starts on this machine
RAY_ADDRESS=10.0.0.5:6379 python examples/ray_search.py     # or on the machines of a cluster
"""

import joblib
from ray.util.joblib import register_ray
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import naysayer

X, y = load_digits(return_X_y=True)
y_bar = naysayer.complement(y, n_classes=10, random_state=0)  # all we are told: not this one

# Scores are estimated accuracies: `score` needs no true labels, so the search does not either.
search = GridSearchCV(
    naysayer.ComplementaryClassifier(network="linear", max_epochs=20, n_seeds=2, random_state=0),
    {"method": ["forward", "scl-nl"], "lr": [0.0001, 0.01]},
    cv=2,
)
register_ray()
with joblib.parallel_config(backend="ray"):
    search.fit(X, y_bar)

print("best:", search.best_params_)
print(f"true accuracy: {100 * (search.predict(X) == y).mean():.0f} %")
