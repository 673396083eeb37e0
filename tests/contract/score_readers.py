"""Readers of scores, studies and runs, and of what people write by hand."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import specimens
from mutation import any_json, any_line, any_table, one_of
from reader import NUMBERS, fresh, lines, parquet, reader, room, shipped

# --- scores and studies -------------------------------------------------------------------------------------


def _scores() -> Any:
    from dialeval.scores import Score, Scores, Signature

    rows = [
        Score("a", None, "bot", "length", "score", 1.5),
        Score("a", 1, None, "human:ann", "overall", None, "skipped"),
        Score("=b", 3, "bot", "length", "score", -2.0, "truncated"),
    ]
    return Scores.of(rows, {"length": Signature.parse("length.v1|unit:words|dialeval:0.1.0")})


def _score_files(ending: str) -> list[bytes]:
    path = room() / f"scores-{next(NUMBERS)}{ending}"
    _scores().write(path)
    return [path.read_bytes()]


def _read_scores(path: Path) -> object:
    from dialeval.scores import Scores

    found = Scores.read(path)
    return found.summary(), found.duplicates(), list(found)


reader("scores as CSV", "s.csv", lambda: _score_files(".csv"), one_of(any_line))(_read_scores)
reader("scores as JSON lines", "s.jsonl", lambda: _score_files(".jsonl"))(_read_scores)
reader("scores as Parquet", "s.parquet", lambda: _score_files(".parquet"), one_of(any_table))(_read_scores)

_FOREIGN = "id=conversation,value=score,source=judge,turn=turn,rater=who,dimension=aspect,note=why"


def _read_columns(path: Path) -> object:
    from dialeval.scores import ColumnMap, read_columns

    return read_columns(path, ColumnMap.parse(f"{path}:{_FOREIGN}")[1])


_ROWS = [
    {"conversation": "a", "score": "4", "turn": 1, "who": "ann", "aspect": "fluent", "why": None},
    {"conversation": 7, "score": "N/A", "turn": "", "who": "", "aspect": None, "why": "x"},
]
_COLUMNS_CSV = b"conversation,score,turn,who,aspect,why\na,4,1,ann,fluent,\nb,N/A,,,,x\n"
reader("foreign columns, CSV", "j.csv", lambda: [_COLUMNS_CSV], one_of(any_line))(_read_columns)
reader("foreign columns, JSON lines", "j.jsonl", lambda: [lines(*_ROWS)])(_read_columns)
reader("foreign columns, Parquet", "j.parquet", lambda: [parquet([{**_ROWS[0]}])], one_of(any_table))(
    _read_columns
)


@functools.cache
def _a_study() -> bytes:
    from dialeval.scores import Score, Scores
    from dialeval.studies import study

    rows = [
        Score(f"d{n}", None, f"bot-{n % 2}", source, "x", float((n * step) % 5))
        for n in range(8)
        for source, step in (("human:a", 1), ("human:b", 3), ("length", 7))
    ]
    return study(Scores.of(rows), by="system", resamples=10, permutations=10).to_json().encode()


@reader("study.json", "study.json", lambda: [_a_study()], one_of(any_json))
def _study(path: Path) -> object:
    from dialeval.jobs.runs import Run
    from dialeval.reports import to_html, to_latex, to_markdown

    shutil.copyfile(path, _run_folder() / "study.json")
    (_run_folder() / "run.json").write_bytes(b"{}")
    run = Run(_run_folder())
    found = run.study()
    assert found is not None
    return to_markdown(found), to_latex(found), to_html(found)


@functools.cache
def _run_folder() -> Path:
    folder = fresh()
    folder.mkdir()
    (folder / "dialogues.jsonl").write_bytes(
        lines({"id": "a", "messages": [{"role": "user", "content": "Hi"}]})
    )
    _scores().write(folder / "scores.parquet")
    return folder


@reader(
    "run.json",
    "run.json",
    lambda: [b'{"input": "chats.jsonl", "signatures": {"length": "length.v1"}, "dialogues": 1}'],
)
def _run(path: Path) -> object:
    from dialeval.jobs.runs import Run

    shutil.copyfile(path, _run_folder() / "run.json")
    run = Run(_run_folder())
    return run.info().get("illustrative"), run.scores(), list(run.dialogues())


def _an_explanation() -> list[bytes]:
    from dialeval.metrics.explanation import Explanation, Side, to_json

    dialogue = Side("d1", ())
    return [to_json(Explanation("d1", "flow", 0.5, {"acts": 0.25}, dialogue)) + b"\n"]


@reader("explanations", "explanations.jsonl", lambda: [specimens.an_explanation(), *_an_explanation()])
def _explanations(path: Path) -> object:
    from dialeval.metrics.explanation import read_explanations, to_json

    return [to_json(one) for one in read_explanations(path)]


# --- what people write by hand ------------------------------------------------------------------------------


def _schemes() -> list[bytes]:
    from dialeval.annotation import scheme_names
    from dialeval.annotation.scheme import scheme_text

    return [scheme_text(name)[0].encode() for name in scheme_names()]


@reader("scheme", "scheme.toml", _schemes, one_of(any_line))
def _scheme(path: Path) -> object:
    from dialeval.annotation import read_scheme

    return [one.options for one in read_scheme(path).questions]


_GOALS = b"""by = "task"
extra = "ignore"
[goal.a]
calls = [{ name = "cancel", arguments = { order = "A1", items = [1, 2.5] } }]
said = ["12.50"]
state = [{ where = { order = "A1" }, is = { status = "gone" } }]
"""
_SCENARIOS = b"""turns = 8
[mood.sour]
yes = ["If I must."]
[scenario.lamp]
goal = "cancel it"
mood = "sour"
facts = { "order number" = "A1" }
done = ["cancelled"]
expect.calls = [{ name = "cancel" }]
"""


@reader("goals of agents", "goals.toml", lambda: [_GOALS], one_of(any_line))
def _goals(path: Path) -> object:
    from dialeval.dialogues import Dialogue, Turn
    from dialeval.metrics.agent import GoalSuccess

    seen = Dialogue("d", (Turn("tool", '[{"order": "A1"}]'), Turn("tool", "{" * 9)), meta={"task": "a"})
    return [row.note for row in GoalSuccess(str(path)).score([seen])]


@reader("scenarios", "scenarios.toml", lambda: [_SCENARIOS], one_of(any_line))
def _scenarios(path: Path) -> object:
    from dialeval.dialogues import Turn
    from dialeval.systems.users import SimulatedUser, read_scenarios

    made = read_scenarios(path)
    heard = ((), (Turn("assistant", "Shall I?"),), (Turn("assistant", "Your order number?"),))
    return [SimulatedUser(*one, made.mood).say(turns) for one in made.scenario.items() for turns in heard]


@reader("rubrics", "rubrics.toml", lambda: [shipped("metrics", "rubrics.toml")], one_of(any_line))
def _rubrics(path: Path) -> object:
    from dialeval.metrics.judge import load_rubrics, rubrics_mark

    return rubrics_mark(str(path), "all"), load_rubrics(str(path), "all")


@reader("sets of follow-ups", "sets.toml", lambda: [shipped("metrics", "followups.toml")], one_of(any_line))
def _sets(path: Path) -> object:
    from dialeval.metrics.followup import load_sets, sets_mark

    return sets_mark(str(path)), load_sets(str(path))


_OPTIONS = (
    "judge.csv:id=conversation,value=score,source=gpt-4",
    "id=session,text=body",
    "wide=floweval:ka=80,w=0.2",
    "both=zmean:metric-1+metric-2",
    "length.v1|unit:words|better:self=lower|dialeval:0.1.0",
    "set:conture/dev[0:10]",
)


@reader("options", "option.txt", lambda: [one.encode() for one in _OPTIONS], one_of(any_line))
def _options(path: Path) -> object:
    """Parse a text in every notation that the command line knows; each may refuse it, none may break."""
    from dialeval.dialogues.formats.tables import TurnColumns
    from dialeval.dialogues.splits import parse_selector
    from dialeval.errors import DialevalError
    from dialeval.metrics import build
    from dialeval.metrics.registry import parse_spec
    from dialeval.scores import ColumnMap, Signature
    from dialeval.studies.combination import Combination

    text = path.read_text(encoding="utf-8", errors="replace")[:2000]
    ways: tuple[Callable[[str], object], ...] = (
        *(ColumnMap.parse, TurnColumns.parse, parse_spec, Combination.parse, parse_selector),
        lambda text: str(Signature.parse(text)),
        lambda text: build(f"length:{text}"),
    )
    found = []
    for way in ways:
        try:
            found.append(way(text))
        except DialevalError as error:
            found.append(str(error))
    return found


def _foreign_answers() -> list[bytes]:
    return [specimens.answers(_annotated(), "label-studio"), specimens.answers(_annotated(), "potato")]


@functools.cache
def _annotated() -> Any:
    return specimens.annotated(fresh())


@reader("answers of other tools", "answers.json", _foreign_answers)
def _answers(path: Path) -> object:
    from dialeval.annotation.interchange import load_answers

    return load_answers(_annotated(), path)


@reader(
    "votes on pairs",
    "pairs.jsonl",
    lambda: [lines({"item": "1", "first": "a", "second": "b", "winner": "a"})],
)
def _pairs(path: Path) -> object:
    from dialeval.jobs.pair_votes import read_votes

    return read_votes(path)


@reader("a version to compare", "version.jsonl", lambda: [lines({**_ROWS[0]})])
def _version(path: Path) -> object:
    from dialeval.jobs.comparing import is_table

    return is_table(path)


@reader("trust.json", "trust.json", lambda: [b"{}"], one_of(any_json))
def _trust(path: Path) -> object:
    from dialeval.studies.trust_findings import Trust

    return Trust.load(path)
