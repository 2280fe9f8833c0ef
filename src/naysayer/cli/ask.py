"""The command `ask`: questions about items, in the browser."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from naysayer.cli.console import EndLinks, Host, Json, Port, Public, Views, is_store, numbers, print_json, words
from naysayer.cli.exchange import begun_or_gone
from naysayer.common.words import count


def ask(
    items: Annotated[
        Path,
        typer.Argument(
            help="Folder of images; CSV, TSV, JSONL or Parquet file, one row per item; or a store, for its own items."
        ),
    ],
    classes: Annotated[
        str | None, typer.Option(help="The classes to ask about, separated by commas; a store has its own.")
    ] = None,
    store: Annotated[
        str, typer.Option(help="Where to store answers: a SQLite file or a postgresql:// URL.")
    ] = "answers.db",
    question: Annotated[
        str | None, typer.Option(help='How to ask, with {class} for the class; default: "Is this a {class}?".')
    ] = None,
    probabilities: Annotated[
        str | None,
        typer.Option(
            help="How often to ask about each class, in their order, separated by commas; default: equally often."
        ),
    ] = None,
    repeat: Annotated[
        float | None, typer.Option(help="Share of questions asked twice, to measure errors; default: 0.05.")
    ] = None,
    per_item: Annotated[
        int | None,
        typer.Option(help="Answers after which an item is not asked about again; default: when its class is known."),
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            metavar="random|guided",
            help="Draw classes at random, or let a model that keeps training suggest what to ask; default: random.",
        ),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="labels|model|accuracy",
            help="What guided questions are for: to settle labels, to teach the model, or to know how many labels are "
            "right; default: labels.",
        ),
    ] = None,
    guidelines: Annotated[
        Path | None,
        typer.Option(
            help="TOML file that tells annotators about the classes, in words and pictures; see docs/collect.md."
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(metavar="de|en|ja", help="Language of the page; default: that of each person's browser."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    invite: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Print a link for somebody to answer with; may be repeated."),
    ] = None,
    days: Annotated[float | None, typer.Option(help="Days until the links of --invite expire; default: never.")] = None,
    end_links: EndLinks = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Require no link: anybody on this machine may answer and see everything.")
    ] = False,
    train: Annotated[bool, typer.Option("--train", help="Keep training on the answers that have come in.")] = False,
    views: Views = None,
    as_json: Json = False,
) -> None:
    """Ask people about items, one question at a time: is this a cat? Yes, no, or can't tell.

    Run it again to add new items and continue.
    """
    from naysayer.collect.languages import check_language
    from naysayer.collect.records import Project
    from naysayer.data.items import read_items

    if language is not None:
        check_language(language)
    wanted: dict[str, Any] = {
        "question": question and question.replace("{class}", "{}"),
        "probabilities": probabilities and tuple(numbers(probabilities, "--probabilities")),
        "repeat_share": repeat,
        "answers_per_item": per_item,
        "questions": questions,
        "goal": goal,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    of_store = items.is_file() and is_store(str(items))
    if of_store:
        store = str(items)
    elif classes is None and "://" not in store and not Path(store).exists():
        raise ValueError(f"--classes must name the classes to ask about, as {items} is no store: add --classes cat,dog")
    try:
        names = _classes_of(store) if classes is None else tuple(words(classes) or ())
        project = Project(names, name=items.absolute().stem, **wanted)
    except ValueError as error:
        raise ValueError(_by_option(str(error))) from None
    told = {"guidelines": _guidelines(guidelines, names), "language": language}
    _check_links(host, public, open_, invite or [], days)
    found = [] if of_store else read_items(items, verbose=1)
    with contextlib.ExitStack() as opened:
        with begun_or_gone(store):
            answers, new = _open_store(opened, store, project, wanted, found)
            training = _training(answers, train, views)
        if end_links:
            answers.end_links()
        _serve(answers, new, (host, port, public, open_), (invite or [], days), training, as_json, told)
        if not as_json:
            _tell_end(answers)


def _check_links(host: str, public: str | None, open_: bool, invite: list[str], days: float | None) -> None:
    """Check, before a store is begun, that links can be made as they are wanted."""
    from naysayer.collect.security import Site

    site = Site(host, public=public, open=open_)
    if invite and site.local:
        raise ValueError("--invite needs an address that others reach: add --host 0.0.0.0, or --public behind a proxy")
    if days is not None and not invite:
        raise ValueError("--days must come with --invite NAME, whose link is to end")
    if days is not None and days <= 0:
        raise ValueError(f"--days must be above 0; got {days:g}")


def _training(answers: Any, train: bool, views: int | None) -> dict[str, Any] | None:
    """Say how to keep training; None: not at all. What cannot be trained so is refused before anybody answers."""
    if not train and answers.project.questions != "guided":
        if views is not None:
            raise ValueError("--views must come with --train, or guided questions, for which photos are learned from")
        return None
    if views is None:
        return {}
    from naysayer.features.encoder import fit_encoder

    fit_encoder(list(itertools.islice(answers.items(), 1)), views=views)
    return {"views": views}


def _guidelines(path: Path | None, classes: tuple[str, ...]) -> Any:
    """Read the guidelines, if there are any."""
    from naysayer.collect.guidelines import read_guidelines

    return None if path is None else read_guidelines(path, classes)


def _classes_of(place: str) -> tuple[str, ...]:
    """Read the classes that a store asks about."""
    from naysayer.collect.store import Store

    with Store.open(place) as store:
        return store.project.classes


def _open_store(
    opened: contextlib.ExitStack, place: str, project: Any, wanted: dict[str, Any], items: Iterable[Any]
) -> tuple[Any, int]:
    """Open or begin a store, change what is wanted otherwise, and add new items; give it and how many were new."""
    from naysayer.collect.store import Store

    answers = opened.enter_context(Store.open(place, project=project))
    changed = {name: value for name, value in wanted.items() if getattr(answers.project, name) != value}
    if "probabilities" in changed and answers.progress().answers:
        raise ValueError(f"--probabilities must stay as they are once there are answers; see {answers.name}")
    if changed:
        answers.configure(**changed)
    new = answers.register(items)
    if gone := answers.find_back():
        print(f"{count(len(gone), 'picture')} left out: no longer at {gone[0].path}", file=sys.stderr)
    return answers, new


def _by_option(message: str) -> str:
    """Say what is wrong with a project in the command's words."""
    names = {"`question` must have {}": "--question must have {class}", "`probabilities`": "--probabilities"}
    names |= {"`repeat_share`": "--repeat", "`answers_per_item`": "--per-item"}
    names |= {"`questions`": "--questions", "`goal`": "--goal"}
    for name, option in names.items():
        message = message.replace(name, option)
    return message


def _serve(
    answers: Any,
    new: int,
    place: tuple[str, int | None, str | None, bool],
    invitations: tuple[list[str], float | None],
    training: dict[str, Any] | None,
    as_json: bool,
    told: dict[str, Any],
) -> None:
    """Serve a store's questions until Control-C, and print where; `told`: the page's guidelines and language."""
    from naysayer.collect.app import make_app
    from naysayer.collect.people import invite_to, invited, owner_of
    from naysayer.collect.security import Site
    from naysayer.collect.serving import listen, serve

    (host, port, public, open_), (invite, days) = place, invitations
    with listen(host, port, answers.name) as listener, contextlib.ExitStack() as opened:
        site = Site(host, listener.getsockname()[1], public, open_)
        known = [name for name in invite if invited(answers, name)]
        until = None if days is None else time.time() + days * 86400
        links = {"owner": site.origin if site.open else site.invitation(answers.new_link(owner_of(answers).id))}
        links |= {name: site.invitation(invite_to(answers, name, until)[1]) for name in invite}
        trainer = None
        if training is not None:
            from naysayer.collect.trainer import Trainer

            trainer = opened.enter_context(Trainer(answers, **training))
        app = make_app(answers, site, trainer=trainer, **told)
        serve(app, listener, lambda: _tell(answers, new, site, links, known, as_json))


def _tell(answers: Any, new: int, site: Any, links: dict[str, str], known: list[str], as_json: bool) -> None:
    """Print where the questions are."""
    if as_json:
        print_json({"items": answers.n_items(), "new": new, "store": answers.name, "links": links, "known": known})
    else:
        print(f"{count(answers.n_items(), 'item')}, {new:,} of them new; classes: {', '.join(answers.project.classes)}")
        for name, link in links.items():
            print(f"{'open' if site.local else f'for {name}:'} {link}")
        for name in known:
            print(f"{name} was invited before: this link is one more for the same person, and the others still work.")
        if site.open:
            print("Everybody on this machine can answer and see everything; without --open they need the link.")
        if not site.local:
            print("Each link is for one person and opens once, in one browser; those printed before still work.")
            if not site.origin.startswith("https:"):
                print("Others on the network can read what goes over http: put a proxy with https in front.")
        print(f"The dashboard is at {site.origin}/dashboard; answers are kept in {answers.name}.")
        print("Press Control-C to stop; the same command continues.")
    sys.stdout.flush()


def _tell_end(answers: Any) -> None:
    """Print what has come in, and what to do with it."""
    n = answers.progress().answers
    print(f"\nstopped; {count(n, 'answer')} in {answers.name}")
    if n:
        place = "URL" if "://" in answers.name else shlex.quote(answers.name)  # a URL may hold a password
        print(f"next: naysayer train {place} --out model/")
