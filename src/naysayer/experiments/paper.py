"""What the paper prints: Table 2, and the errata's Table 3, test accuracy in percent, mean and deviation of 4 trials.

The columns name the training method and, in parentheses, the criterion that chose learning rate and epoch.
"""

Row = tuple[tuple[float, float], ...]
COLUMNS = ("GA (Free)", "PC (PC)", "Fwd (Fwd)", "PC (Free)", "Fwd (Free)")

TABLE_2: dict[str, Row] = {
    "mnist": ((88.1, 2.5), (79.3, 3.3), (88.7, 0.3), (80.2, 2.9), (89.4, 0.4)),
    "fashion": ((78.7, 1.4), (74.7, 1.6), (77.5, 1.2), (75.7, 1.2), (73.5, 5.5)),
    "kuzushiji": ((63.8, 1.1), (56.7, 4.9), (62.0, 1.1), (56.1, 4.2), (65.4, 1.7)),
    "cifar10": ((36.8, 0.6), (33.4, 2.0), (30.8, 1.6), (25.9, 7.6), (30.8, 1.7)),
}

TABLE_3: dict[str, Row] = {
    "mnist": ((88.1, 2.5), (79.3, 3.3), (93.3, 0.2), (80.2, 2.9), (92.2, 0.6)),
    "fashion": ((78.7, 1.4), (74.7, 1.6), (82.7, 0.4), (75.7, 1.2), (82.5, 0.6)),
    "kuzushiji": ((63.8, 1.1), (56.7, 4.9), (64.1, 0.4), (56.1, 4.2), (63.9, 1.9)),
    "cifar10": ((36.8, 0.6), (33.4, 2.0), (33.2, 0.9), (25.9, 7.6), (33.7, 1.1)),
}
