"""Classifiers with scikit-learn's interface."""
