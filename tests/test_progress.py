"""Progress is told in lines where there is no terminal, seldom and plainly."""

from __future__ import annotations

import pytest

from naysayer.common import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "SECONDS", 10.0)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return now


def test_lines_come_after_ten_seconds_of_work_and_then_every_ten(clock, capsys):
    with progress.progress_bar(100, "reading") as bar:
        for second in range(1, 100):
            clock[0] += 1
            bar(label="training" if second == 15 else None)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 9
    assert lines[0] == "reading: 10 % after 0:00:10, 0:01:30 left"
    assert lines[1] == "training: 20 % after 0:00:20, 0:01:20 left"


def test_little_work_and_unwanted_lines_print_nothing(clock, capsys):
    with progress.progress_bar(5, "training") as bar:
        for _ in range(5):
            clock[0] += 1.9
            bar()
    with progress.progress_bar(5, "training", show=False) as bar:
        clock[0] += 1000
        bar()
    assert capsys.readouterr() == ("", "")


def test_the_time_left_is_not_guessed_before_anything_is_done(clock, capsys):
    with progress.progress_bar(5, "fetching") as bar:
        clock[0] += 4000
        bar(0)
    assert capsys.readouterr().err == "fetching: 0 % after 1:06:40\n"


def test_a_bar_is_shown_on_a_terminal(clock, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    with progress.progress_bar(5, "training") as bar:
        clock[0] += 1000
        bar(label="training more")
    err = capsys.readouterr().err
    assert "training more" in err
    assert "% after" not in err
