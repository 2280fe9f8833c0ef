"""The command `survey`: private questions, in the browser, and what their answers say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from naysayer.cli.console import EndLinks, Host, Json, Port, Public, percent, print_json, print_table
from naysayer.common.words import count


def survey(
    file: Annotated[Path, typer.Argument(help="TOML file with the questions; examples/survey.toml shows one.")],
    store: Annotated[
        str | None, typer.Option(help="Where to store answers: a SQLite file or a postgresql:// URL; default: FILE.db.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    end_links: EndLinks = False,
    results: Annotated[bool, typer.Option("--results", help="Print the results; serve nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Ask private questions whose true answers never leave the respondent's device."""
    from naysayer.survey.questions import read_survey
    from naysayer.survey.store import SurveyStore

    asked = read_survey(file)
    answers = SurveyStore(store or str(file.with_suffix(".db")), asked, create=not results)
    try:
        if results:
            _print_results(asked, answers, as_json)
        else:
            if end_links:
                answers.end_links()
            _serve(asked, answers, host, port, public, as_json)
    finally:
        answers.close()


def _serve(asked: Any, answers: Any, host: str, port: int | None, public: str | None, as_json: bool) -> None:
    """Serve a survey until Control-C, and print where."""
    from naysayer.collect.security import Site
    from naysayer.collect.serving import listen, serve
    from naysayer.survey.app import make_app

    with listen(host, port, answers.name) as listener:
        site = Site(host, listener.getsockname()[1], public)
        links = {"respondents": f"{site.origin}/s/{answers.key}", "results": site.invitation(answers.new_link())}
        serve(make_app(asked, answers, site), listener, lambda: _tell(asked, answers, site, links, as_json))
    if not as_json:
        n = answers.count()
        print(f"\nended; {count(n, 'person has', 'people have')} answered; --results prints the results")


def _tell(asked: Any, answers: Any, site: Any, links: dict[str, str], as_json: bool) -> None:
    """Print where the survey is."""
    if as_json:
        print_json(links)
    else:
        n_private = sum(question.private for question in asked.questions)
        print(f"{asked.title}: {count(len(asked.questions), 'question')}, {n_private} of them private")
        print(f"for respondents, the same link for all: {links['respondents']}")
        print(f"for you alone, the results:             {links['results']}")
        if not site.local and not site.origin.startswith("https:"):
            print("Others on the network can read and change what goes over http: put a proxy with https in front.")
        print(f"Answers are kept in {answers.name}. Press Control-C to stop.")
    sys.stdout.flush()


def _print_results(asked: Any, answers: Any, as_json: bool) -> None:
    """Print what a survey's answers say."""
    from naysayer.survey.results import encode, summary

    found = summary(asked, encode(asked, answers.answers()))
    if as_json:
        print_json(found)
        return
    people = count(found["respondents"], "respondent")
    print(f"{found['title']}: {people}; no result is shown for fewer than {found['minimum']:,}\n")
    for question, about in zip(asked.questions, found["questions"], strict=True):
        kind = about["mode"] or "as answered"
        print(f"{about['text']} ({kind}, {count(about['answers'], 'answer')})")
        rows = [
            [option.text, percent(*(share[key] for key in ("estimate", "low", "high")))]
            for option, share in zip(question.options, about["shares"])
        ]
        if rows:
            print_table(["option", "share % (95% interval)"], rows)
        print(f"{about['warning']}\n" if about["warning"] else "")
    for about in found["predictions"]:
        if about["problem"] is None:
            right = percent(*(about["accuracy"][key] for key in ("estimate", "low", "high")))
            print(f"{about['question']}: the other answers predict it in {right} % of cases")
        else:
            print(f"{about['question']}: {about['problem']}")
    print("\nCross-tables with a private question: --json, or the results page. Rows as stored: naysayer export.")
