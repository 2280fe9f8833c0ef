"""A trained model to look at: one HTML file that needs no other (`naysayer train … --report report.html`)."""

from naysayer.report.evidence import Evidence
from naysayer.report.sections import write

__all__ = ["Evidence", "write"]
