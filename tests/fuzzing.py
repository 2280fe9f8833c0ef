"""Requests made up from an app's own description; tests send some, `make soak` sends many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from naysayer.collect.security import Buckets, Guard

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)


def unlimited(guard: Guard) -> Guard:
    """An app that takes requests as fast as they come: what is refused for coming too soon tests nothing."""
    guard.known = Buckets(rate=1e9, burst=1e9)
    return guard


def fuzz(
    origin: str,
    headers: dict[str, str],
    *,
    examples: int = 40,
    seed: int | None = None,
    alter: Callable[[Any], None] | None = None,
) -> Counter[tuple[str, str, int]]:
    """Send made-up requests to every operation: nothing may fail, and every answer must be as described.

    `seed`: what the requests depend on; None: they are always the same. `alter` changes about every other request
    before it is sent. Gives how often each method and path answered with each status.
    """
    schemathesis, hypothesis = (pytest.importorskip(name) for name in ("schemathesis", "hypothesis"))
    schema = schemathesis.openapi.from_url(f"{origin}/api/openapi.json")
    checks = [getattr(schemathesis.checks, name) for name in CHECKS]
    seen: Counter[tuple[str, str, int]] = Counter()
    altered = hypothesis.strategies.just(False) if alter is None else hypothesis.strategies.booleans()
    for operation in schema.get_all_operations():

        @hypothesis.given(case=operation.ok().as_strategy(), altered=altered)
        @hypothesis.settings(
            max_examples=examples,
            database=None,
            derandomize=seed is None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def holds(case: Any, altered: bool) -> None:
            case.headers = {**(case.headers or {}), **headers}
            if altered and alter is not None:
                alter(case)
            response = case.call()
            case.validate_response(response, checks=checks)
            seen[case.method, case.path, response.status_code] += 1

        (holds if seed is None else hypothesis.seed(seed)(holds))()
    assert {path for _, path, _ in seen} == set(schema.raw_schema["paths"]), "every path must have been asked for"
    return seen
