"""What was observed: complementary labels drawn, read, checked, encoded, and turned into weights.

Two encodings serve everywhere. A 1-D integer array says "not this class", one class per example.
A 2-D boolean array is the *ruled-out matrix*: row i is True at each class that example i is known
not to be. One True is a complementary label, several are several, K - 1 are an ordinary label,
none is no information.
"""

from naysayer.labels.drawing import complement
from naysayer.labels.reading import ruled_out

__all__ = ["complement", "ruled_out"]
