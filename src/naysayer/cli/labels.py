"""The commands about labels: `labels`, `doctor` and `plan`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysayer.cli.console import (
    Categorical,
    Classes,
    Confidence,
    Delimiter,
    Device,
    Drop,
    Image,
    Json,
    Numeric,
    Ordinary,
    StorePlace,
    Text,
    Transition,
    check_target,
    column_lines,
    is_store,
    percent,
    print_json,
    print_table,
    read_matrix,
    refuse_options,
    said_of_columns,
    warnings_as_lines,
    words,
)
from naysayer.common.words import count

if TYPE_CHECKING:
    from naysayer.measure.answer_report import AnswerReport
    from naysayer.measure.answers import Answers

ODD = 0.01  # what chance brings about less often than that is told
KINDS = {
    "ordinary": "“it is c”",
    "yes_no": "“is it c?” of a random class, yes or no",
    "complementary": "“it is not c”",
}


def plan(
    classes: Annotated[int, typer.Option(help="Number of classes.")],
    margin: Annotated[float, typer.Option(help="Half the width of the interval that you want, such as 0.01.")] = 0.01,
    accuracy: Annotated[float, typer.Option(help="The accuracy that you expect.")] = 0.9,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Print how many labels of each kind it takes to estimate an accuracy to within a margin."""
    from naysayer.measure.planning import labels_needed

    needed = labels_needed(classes, margin, accuracy, confidence)
    if as_json:
        about = {"classes": classes, "margin": margin, "accuracy": accuracy, "confidence": confidence}
        print_json(about | {"labels": needed._asdict()})
        return
    print(
        f"To measure an accuracy near {100 * accuracy:g} % to within ± {100 * margin:g} points, "
        f"{classes} classes, {100 * confidence:g}% confidence:\n"
    )
    counts = {text: getattr(needed, kind) for kind, text in KINDS.items()}
    rows = [[text, f"{count:,}", f"{count / needed.ordinary:.1f}"] for text, count in counts.items()]
    print_table(["label", "how many", "times the ordinary"], rows)
    print("\nA yes/no answer pays off if an ordinary label costs more than that many times as much.")


def doctor(
    context: typer.Context,
    table: Annotated[
        str,
        typer.Argument(help="CSV, TSV, Parquet or npz file with a column of labels; or a store, such as answers.db."),
    ],
    label: Annotated[str | None, typer.Option(help="Column that holds the labels; default: the only one.")] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    drop: Drop = "",
    categorical: Categorical = "",
    numeric: Numeric = "",
    image: Image = None,
    text: Text = None,
    transition: Transition = None,
    delimiter: Delimiter = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Check a table's labels or a store's answers: counts, class shares, whether they can be uniform, what to use.

    For a table, it also says how each column is read.
    """
    if is_store(table):
        refuse_options(context, {"table", "confidence", "as_json"}, table)
        _doctor_of_store(table, confidence, as_json)
        return
    from naysayer.data import tables
    from naysayer.data.labels import hardly_named, read_labels
    from naysayer.features.tables import TableEncoder
    from naysayer.measure.doctor import Finding, examine

    matrix = read_matrix(transition)
    data = tables.read_table(table, delimiter)
    if label is None:
        if len(data.columns) > 1:
            raise ValueError(f"--label must name one of the columns {', '.join(data.columns)}")
        label = next(iter(data.columns))
    y_bar, names, said = read_labels(data, label, words(classes), ordinary)
    report = examine(y_bar, len(names), names, confidence, matrix)
    if classes is None:  # else those that none names are told by the report
        report.findings.extend(Finding("warning", f"{text}.") for text in hardly_named(y_bar, names))
    said_of = said_of_columns(drop, categorical, numeric, image, text)
    columns = TableEncoder().read(data, said_of.without(label))
    report.findings.extend(Finding("warning", f"{warning}.") for warning in columns.warnings)
    if as_json:
        print_json({"labels": said, "columns": columns.readings} | report.to_dict())
        return
    print(f"{said}\n")
    rows = [[c.name, f"{c.ruled_out:,}", f"{c.named:,}", percent(c.prior, c.low, c.high)] for c in report.classes]
    print_table(["class", "ruled out", "named", "share of the rows %"], rows)
    print()
    for finding in report.findings:
        print(f"{finding.level:>8}: {finding.text}")
    print()
    for line in report.advice:
        print(f"  {line}")
    if columns.readings:
        print()
    for line in column_lines(columns.readings):
        print(line)


def _doctor_of_store(place: str, confidence: float, as_json: bool) -> None:
    """Check the answers in a store."""
    from naysayer.collect.judging import class_shares
    from naysayer.collect.reviewing import disagreements, summary
    from naysayer.collect.store import Store
    from naysayer.measure.answer_report import examine
    from naysayer.measure.answers import VALUES, read_answers

    with Store.open(place) as store:
        said, progress = read_answers(store), store.progress()
        if not (said.value >= 0).any():
            raise ValueError(f"{store.name} must have answers to check; it has none yet; ask people first")
        decided, people = store.decided(said), summary(store)
        given, trainings = list(store.standing()), store.trainings()
        disputed = len(disagreements(given, trainings, store.project))
    report = examine(said, confidence)
    shares = class_shares(given, said, trainings, report.errors.overall, confidence)
    report = report if shares is None else replace(report, priors=shares)
    findings = [
        *_odd_people(people, disputed),
        *_odd_questions(report, said, shares is not None),
        *((found.level, found.text) for found in report.findings),
    ]
    findings = findings or [("ok", "Questions and answers look as they should.")]
    if as_json:
        about = {"items": progress.items, "answered": progress.answered, "decided": decided, "classes": said.classes}
        told = [{"level": level, "text": text} for level, text in findings]
        about |= {"guided_shares": shares is not None}
        print_json(about | report.to_dict() | {"findings": told})
        return
    by = f"{count(report.n_answers, 'answer')} by {count(len(said.annotators), 'person', 'people')}"
    print(f"{by} about {progress.answered:,} of {count(progress.items, 'item')}")
    wrong = f"{percent(*report.errors.overall)} % of the answers are wrong"
    if report.errors.n_pairs:
        differ = f"{report.errors.n_disagreements:,} of {report.errors.n_pairs:,}"
        print(f"{wrong}; of questions that were asked twice, {differ} got two different answers")
    else:
        print(f"{wrong}, as far as can be known before any question was asked twice")
    are = "is" if decided == 1 else "are"
    settled = f"{decided:,} of {count(progress.items, 'item')} {are} settled by answers"
    print(f"{settled}: a class has a probability of 95 % or more\n")
    counts = {
        value: [int(((said.asked == k) & (said.value == n)).sum()) for k in range(said.n_classes)]
        for value, n in VALUES.items()
    }
    rows = []
    for k, name in enumerate(said.classes):
        share = "-" if report.priors is None else percent(*(bound[k] for bound in report.priors))
        rows.append([name, *(f"{counts[value][k]:,}" for value in VALUES), share])
    print_table(["class", "yes", "no", "can't tell", "share of the items %"], rows)
    print()
    for level, text in findings:
        print(f"{level:>8}: {text}")
    print("\n  the labels: naysayer labels STORE --out labels.csv\n  a model: naysayer train STORE --out model/")


def _odd_people(people: list[dict[str, Any]], disputed: int) -> list[tuple[str, str]]:
    """Say whose answers look bad, who is left out, and how many items are disputed."""
    found = [
        ("warning", f"{one['name']} {'; '.join(one['reasons'])}. See: naysayer people STORE")
        for one in people
        if one["reasons"] and not one["left_out"]
    ]
    if out := sum(one["left_out"] is not None for one in people):
        found.append(("note", f"{count(out, 'person is', 'people are')} left out, and not counted here."))
    if disputed:
        text = f"People, or people and model, disagree on {count(disputed, 'item')}; the dashboard lists them."
        found.append(("note", text))
    return found


def _odd_questions(report: AnswerReport, said: Answers, guided_shares: bool) -> list[tuple[str, str]]:
    """Say what is odd about which questions were asked, and how many got a yes."""
    found = []
    if report.asked_p_value is not None and report.asked_p_value < ODD:
        found.append(("warning", "Classes were not asked about with the probabilities that the store records."))
    if report.yes is not None and report.yes_expected is not None and (report.yes_p_value or 0.0) < ODD:
        more = "more" if report.yes.estimate > report.yes_expected else "less"
        share, usual = 100 * report.yes.estimate, 100 * report.yes_expected
        text = f"{share:.1f} % of the first answers are yes, {more} than the {usual:.1f} % of uniform questions."
        found.append(("warning", text))
    if said.guided is not None and said.guided.any():
        before = "Class shares rest on the answers before guided questions began"
        found.append(("note", f"{before}, and on the guided ones." if guided_shares else f"{before}."))
    if not said.design.told.any():
        found.append(
            ("note", "These questions were not drawn at random: their answers serve as labels, but for no estimate.")
        )
    return found


def labels(
    store: StorePlace,
    out: Annotated[Path, typer.Option(help="CSV file to write, one row per item.")],
    review: Annotated[
        Path | None, typer.Option(help="CSV file to write with the doubtful items, the most doubtful first.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Minimum probability of a label; items below it are doubtful.")
    ] = 0.95,
    model: Annotated[
        bool, typer.Option("--model/--no-model", help="Whether to combine people's answers with a model trained now.")
    ] = True,
    network: Annotated[str, typer.Option(help="Network of the model, as for train.")] = "mlp",
    epochs: Annotated[int | None, typer.Option(help="Number of epochs; default: depends on the network.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write the label of each item of a store, its probability, and whether people or a model know it."""
    for option, path in (("--out", out), ("--review", review)):
        if path is not None:
            check_target(path, option)
    if review is not None and review.absolute() == out.absolute():
        raise ValueError(f"--review must be another file than --out; both are {out}")
    from naysayer.collect.labels import KNOWN_BY, doubtful, label_items, write_labels
    from naysayer.collect.reviewing import summary
    from naysayer.collect.store import Store

    options: dict[str, Any] = {
        "network": network,
        "max_epochs": epochs,
        "random_state": seed,
        "device": device,
        "verbose": 1,
    }
    with Store.open(store) as answers, warnings_as_lines():
        found = label_items(answers, threshold, model=model, **options)
        odd = [one["name"] for one in summary(answers) if one["reasons"] and not one["left_out"]]
    queue = doubtful(found)
    write_labels(out, found)
    if review is not None:
        write_labels(review, queue)
    sure = [each for each in found if each.label is not None]
    counts = {name: sum(each.known_by == name for each in sure) for name in KNOWN_BY[:3]}
    wrong = sum(1.0 - each.sure for each in sure)
    if as_json:
        files = {"out": str(out), "review": None if review is None else str(review)}
        about = {"items": len(found), "labels": len(sure), "doubtful": len(queue), "expected_wrong": wrong}
        print_json(about | {"known_by": counts, "threshold": threshold, "look_at": odd} | files)
        return
    by = f"{counts['people']:,} settled by people, {counts['people and model']:,} by people and model together"
    have = f"{len(sure):,} of {count(len(found), 'item')} {'has' if len(sure) == 1 else 'have'}"
    print(f"{have} a label in {out}: {by}, {counts['model']:,} by the model alone")
    if sure:
        print(f"about {wrong:.1f} of these labels are expected to be wrong")
    if odd:
        print(f"the answers of {count(len(odd), 'person', 'people')} look bad: see naysayer people STORE")
    if queue:
        where = "--review FILE lists such items" if review is None else f"see {review}, the most doubtful first"
        print(f"{count(len(queue), 'is', 'are')} doubtful, below {100 * threshold:g} %; {where}")
