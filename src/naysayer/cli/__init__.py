"""The command: parse, call, print."""

from naysayer.cli.app import app, main

__all__ = ["app", "main"]
