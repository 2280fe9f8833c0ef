"""The commands of asking and surveys, and what the others do with a store; each imports what it needs when called."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from naysayer.cli.console import (
    Host,
    Json,
    Port,
    Public,
    at_least_one,
    check_writable,
    clipped_percent,
    numbers,
    print_json,
    print_table,
    words,
)

# ---- asking people ------------------------------------------------------------------------------------------


def ask(
    items: Annotated[Path, typer.Argument(help="Folder of images; or CSV, TSV, JSONL or Parquet file, a row an item.")],
    classes: Annotated[str, typer.Option(help="The classes to ask about, separated by commas.")],
    store: Annotated[
        str, typer.Option(help="Where answers are kept: a SQLite file or a postgresql:// URL.")
    ] = "answers.db",
    question: Annotated[
        str | None, typer.Option(help='How to ask, with {class} for the class; default: "Is this a {class}?".')
    ] = None,
    probabilities: Annotated[
        str | None, typer.Option(help="How often to ask about each class, in their order, by commas; default: alike.")
    ] = None,
    repeat: Annotated[
        float | None, typer.Option(help="Share of questions asked twice, to measure errors; default: 0.05.")
    ] = None,
    per_item: Annotated[
        int | None, typer.Option(help="Answers after which an item is left alone; default: when its class is known.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    invite: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Print a link for somebody to answer with; once or more.")
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Train on what has come in, again and again.")] = False,
    as_json: Json = False,
) -> None:
    """Ask people about items, one question at a time: is this a cat? Yes, no, or can't tell.

    Run again, it adds the items that are new and goes on.
    """
    from naysayer.collect.records import Project
    from naysayer.collect.store import Store
    from naysayer.data.items import read_items

    wanted: dict[str, Any] = {
        "question": question and question.replace("{class}", "{}"),
        "probabilities": probabilities and tuple(numbers(probabilities, "--probabilities")),
        "repeat_share": repeat,
        "answers_per_item": per_item,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    try:
        project = Project(tuple(words(classes) or ()), name=items.absolute().stem, **wanted)
    except ValueError as error:
        raise ValueError(_by_option(str(error))) from None
    found = read_items(items)
    with _begun_or_gone(store), contextlib.ExitStack() as opened:
        answers = opened.enter_context(Store.open(store, project=project))
        changed = {name: value for name, value in wanted.items() if getattr(answers.project, name) != value}
        if "probabilities" in changed and answers.progress().answers:
            raise ValueError(f"--probabilities must stay as they are once there are answers; see {answers.name}")
        if changed:
            answers.configure(**changed)
        new = answers.register(found)
        stays = opened.pop_all()
    with stays:
        _serve_ask(answers, new, host, port, public, invite or [], train, as_json)


@contextlib.contextmanager
def _begun_or_gone(place: str) -> Iterator[None]:
    """Leave no new store behind where it could not be begun: the next try may be with other classes."""
    is_new = "://" not in place and not Path(place).exists()
    try:
        yield
    except BaseException:
        for ending in ("", "-wal", "-shm") if is_new else ():
            Path(f"{place}{ending}").unlink(missing_ok=True)
        raise


def _by_option(message: str) -> str:
    """Say what is wrong with a project in the command's words."""
    names = {"`question` must have {}": "--question must have {class}", "`probabilities`": "--probabilities"}
    names |= {"`repeat_share`": "--repeat", "`answers_per_item`": "--per-item"}
    for name, option in names.items():
        message = message.replace(name, option)
    return message


def _serve_ask(
    answers: Any,
    new: int,
    host: str,
    port: int | None,
    public: str | None,
    invite: list[str],
    train: bool,
    as_json: bool,
) -> None:
    """Serve a store's questions until Control-C, and print where."""
    from naysayer.collect.app import make_app
    from naysayer.collect.people import invite_to, owner_of
    from naysayer.collect.security import Site, is_loopback
    from naysayer.collect.serving import listen, serve

    if invite and public is None and is_loopback(host):
        raise ValueError("--invite needs an address that others reach: add --host 0.0.0.0, or --public behind a proxy")
    with listen(host, port, answers.name) as listener:
        site = Site(host, listener.getsockname()[1], public)
        links = {"owner": site.origin if site.local else site.invitation(answers.renew_token(owner_of(answers).id))}
        links |= {name: site.invitation(invite_to(answers, name)[1]) for name in invite}

        def tell() -> None:
            if as_json:
                print_json({"items": answers.n_items(), "new": new, "store": answers.name, "links": links})
            else:
                names = ", ".join(answers.project.classes)
                print(f"{answers.n_items():,} items, {new:,} of them new; classes: {names}")
                for name, link in links.items():
                    print(f"{'open' if site.local else f'for {name}:'} {link}")
                if not site.local:
                    print("Each link is for one person and shown once; a new one for the same name ends the old.")
                    if not site.origin.startswith("https:"):
                        print("Others on the way can read what goes over http: put a proxy with https before it.")
                print(f"The dashboard is at {site.origin}/dashboard; answers are kept in {answers.name}.")
                print("Control-C stops; the same command goes on.")
            sys.stdout.flush()

        if train:
            from naysayer.collect.learn import Trainer

            with Trainer(answers) as trainer:
                serve(make_app(answers, site, trainer=trainer), listener, tell)
        else:
            serve(make_app(answers, site), listener, tell)
    if not as_json:
        n = answers.progress().answers
        print(f"\nstopped; {n:,} answers are in {answers.name}")
        if n:
            place = "URL" if "://" in answers.name else shlex.quote(answers.name)  # a URL may hold a password
            print(f"next: naysayer train {place} --out model/")


def survey(
    file: Annotated[Path, typer.Argument(help="TOML file with the questions; examples/survey.toml shows one.")],
    store: Annotated[
        str | None, typer.Option(help="Where answers are kept: a SQLite file or a postgresql:// URL; default: FILE.db.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    results: Annotated[bool, typer.Option("--results", help="Print what the answers say; serve nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Ask private questions of which the true answer never leaves the respondent's device."""
    from naysayer.survey.questions import read_survey
    from naysayer.survey.store import SurveyStore

    asked = read_survey(file)
    answers = SurveyStore(store or str(file.with_suffix(".db")), asked, create=not results)
    try:
        if results:
            _print_survey(asked, answers, as_json)
        else:
            _serve_survey(asked, answers, host, port, public, as_json)
    finally:
        answers.close()


def _serve_survey(asked: Any, answers: Any, host: str, port: int | None, public: str | None, as_json: bool) -> None:
    """Serve a survey until Control-C, and print where."""
    from naysayer.collect.security import Site
    from naysayer.collect.serving import listen, serve
    from naysayer.survey.app import make_app

    with listen(host, port, answers.name) as listener:
        site = Site(host, listener.getsockname()[1], public)
        links = {"respondents": f"{site.origin}/s/{answers.key}", "results": site.invitation(answers.new_owner_token())}

        def tell() -> None:
            if as_json:
                print_json(links)
            else:
                n_private = sum(question.private for question in asked.questions)
                print(f"{asked.title}: {len(asked.questions)} questions, {n_private} of them private")
                print(f"for respondents, the same link for all: {links['respondents']}")
                print(f"for you alone, the results:             {links['results']}")
                if not site.local and not site.origin.startswith("https:"):
                    print("What goes over http can be read and changed on the way: put a proxy with https before it.")
                print(f"Answers are kept in {answers.name}. Control-C ends it.")
            sys.stdout.flush()

        serve(make_app(asked, answers, site), listener, tell)
    if not as_json:
        print(f"\nended; {answers.count():,} people have answered; --results prints what they say")


def _print_survey(asked: Any, answers: Any, as_json: bool) -> None:
    """Print what a survey's answers say."""
    from naysayer.survey.results import encode, summary

    found = summary(asked, encode(asked, answers.answers()))
    if as_json:
        print_json(found)
        return
    print(f"{found['title']}: {found['respondents']:,} respondents\n")
    for question, about in zip(asked.questions, found["questions"], strict=True):
        kind = about["mode"] or "as answered"
        print(f"{about['text']} ({kind}, {about['answers']:,} answers)")
        rows = [
            [option.text, clipped_percent(*(share[key] for key in ("estimate", "low", "high")))]
            for option, share in zip(question.options, about["shares"])
        ]
        if rows:
            print_table(["option", "share % (95% interval)"], rows)
        print(f"{about['warning']}\n" if about["warning"] else "")
    for about in found["predictions"]:
        if about["problem"] is None:
            right = clipped_percent(*(about["accuracy"][key] for key in ("estimate", "low", "high")))
            print(f"{about['question']}: the other answers foretell it in {right} % of cases")
        else:
            print(f"{about['question']}: {about['problem']}")
    print("\nCross-tables of every two questions: --json, or the page of results.")


# ---- stores of answers: out, in, and models from them -------------------------------------------------------


def export_store(
    store: Annotated[str, typer.Argument(help="A store, such as answers.db, or a postgresql:// URL.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .jsonl; .json for Label Studio.")],
    as_json: Json = False,
) -> None:
    """Write all of a store into a file: items, questions, answers and who gave them, but no tokens."""
    from naysayer.collect.exchange import export
    from naysayer.collect.store import Store

    with Store.open(store) as answers:
        n, stand = export(answers, out), answers.progress().answers
    if as_json:
        print_json({"answers": n, "standing": stand, "file": str(out)})
    elif n == stand:
        print(f"{n:,} answers are in {out}")
    else:
        print(f"{n:,} answers and undos are in {out}; {stand:,} answers stand")


def import_file(
    store: Annotated[
        str, typer.Argument(help="A store, such as answers.db, or a postgresql:// URL; a new one is begun.")
    ],
    file: Annotated[Path, typer.Argument(help="An export; Prodigy's .jsonl; Label Studio's .json.")],
    classes: Annotated[
        str | None, typer.Option(help="The classes of a new store, by commas; default: those of the export.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read answers into a store: all of a file, or nothing if any of it is wrong. What is there already is kept."""
    from naysayer.collect.exchange import import_answers, read_project
    from naysayer.collect.records import Project
    from naysayer.collect.store import Store

    project = Project(tuple(words(classes) or ())) if classes else read_project(file)
    if project is None and "://" not in store and not Path(store).exists():
        raise ValueError(f"--classes must say what a new store asks about, as {file} does not: add --classes cat,dog")
    with _begun_or_gone(store), Store.open(store, project=project) as answers:
        added = import_answers(answers, file)
    if as_json:
        print_json(added._asdict())
    else:
        print("new in the store: " + ", ".join(f"{n:,} {name}" for name, n in added._asdict().items()))


def is_store(place: str) -> bool:
    return "://" in place or Path(place).suffix.lower() in (".db", ".sqlite", ".sqlite3")


def train_on_store(place: str, out: Path, network: str, epochs: int, seed: int, device: str, as_json: bool) -> None:
    """Train on a store's answers, save the model and print how good it is."""
    from naysayer.collect.learn import train as train_on
    from naysayer.collect.store import Store

    check_writable(out)
    with Store.open(place) as answers:
        trained = train_on(
            answers, network=network, max_epochs=at_least_one(epochs, "--epochs"), device=device, random_state=seed
        )
    trained.save(out)
    about = {"model": str(out), "classes": trained.model.classes_.tolist(), "answers": trained.n_answers}
    about |= {"items": trained.n_items, "error_rate": trained.error_rate}
    if as_json:
        print_json(about | {"accuracy": dict(zip(("estimate", "low", "high"), trained.accuracy, strict=True))})
        return
    wrong = f"about {100 * trained.error_rate:.1f} % of them are wrong, as questions asked twice tell"
    if trained.error_rate == 0:
        wrong = "no question that was asked twice got two different answers"
    print(f"{trained.n_answers:,} answers about {trained.n_items:,} items; {wrong}")
    print(f"estimated accuracy: {clipped_percent(*trained.accuracy)} %, from answers that the models did not see")
    print(f"saved in {out}; next: naysayer predict {out} ITEMS")


def learned_from_store(folder: Path) -> bool:
    """Whether a model learned from a store; of one that cannot be read, whoever loads it says what is wrong."""
    try:
        return "items" in json.loads((folder / "model.json").read_text(encoding="utf8"))["extra"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def predict_items(folder: Path, place: str, device: str) -> tuple[Any, list[str], Any]:
    """A model that learned from a store, the names of items, and their classes' probabilities."""
    from naysayer.collect.learn import load
    from naysayer.collect.store import Store
    from naysayer.data.items import read_items

    trained = load(folder, device)
    if is_store(place):
        with Store.open(place) as answers:
            items = list(answers.items())
    else:
        items = list(read_items(place))
    if odd := next((item for item in items if item.kind != trained.encoder.kind), None):
        raise ValueError(
            f"the model at {folder} learned from {trained.encoder.kind}s; {odd.name} is of kind {odd.kind}"
        )
    return trained.model, [item.name for item in items], trained.predict_proba(items)


def evaluate_on_store(folder: Path, place: str, confidence: float, device: str, as_json: bool) -> None:
    """Estimate a model's accuracy from a store's answers."""
    from naysayer.collect.learn import load
    from naysayer.collect.store import Store
    from naysayer.measure.answers import accuracy, class_priors, read_answers

    if not is_store(place):
        raise ValueError(f"the model at {folder} learned from a store; give a store to evaluate it on; got {place}")
    trained = load(folder, device)
    names = tuple(trained.model.classes_.tolist())
    with Store.open(place) as answers:
        if answers.project.classes != names:
            raise ValueError(f"{place} must be of the model's classes, {', '.join(names)}")
        said = read_answers(answers)
        items = {item.id: item for item in answers.items()}
    if not said.items:
        raise ValueError(f"{place} must have answers to evaluate a model on; it has none")
    seen = np.array([trained.saw(id) for id in said.items])
    if seen.all():
        raise ValueError(
            f"{place} must have answers about items that the model did not learn from; it has none; "
            f"naysayer train told an accuracy; ask about other items for another"
        )
    predicted = trained.predict_proba([items[id] for id in said.items]).argmax(axis=1)
    found = accuracy(said, np.where(seen, -1, predicted), confidence=confidence)
    prior = class_priors(said, confidence=confidence)
    share = np.bincount(predicted, minlength=len(names)) / len(predicted)
    if as_json:
        per_class = [
            {"class": name, "prior": p, "prior_low": low, "prior_high": high, "predicted_share": share[k]}
            for k, (name, p, low, high) in enumerate(zip(names, *prior))
        ]
        estimate = dict(zip(("estimate", "low", "high"), found, strict=True))
        about = {"accuracy": estimate, "confidence": confidence, "items": int((~seen).sum())}
        print_json(about | {"classes": per_class})
        return
    n, left_out = int((~seen).sum()), int(seen.sum())
    rest = f"; {left_out:,} more are left out, as the model learned from them" if left_out else ""
    print(f"answers about {n:,} items{rest}")
    print(f"estimated accuracy: {clipped_percent(*found)} % ({100 * confidence:g}% interval)\n")
    rows = [
        [name, clipped_percent(p, low, high), f"{100 * share[k]:.1f}"]
        for k, (name, p, low, high) in enumerate(zip(names, *prior))
    ]
    print_table(["class", "share %", "predicted share %"], rows)
