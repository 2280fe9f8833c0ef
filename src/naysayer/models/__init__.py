"""Classifiers with scikit-learn's face."""
