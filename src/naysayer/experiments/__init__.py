"""The paper's figures and tables, its errata included, and what lies beyond them, each a short file over the engine.

An experiment lists its jobs and turns their results into a section of the report; ``reproduce`` does the rest.
"""
