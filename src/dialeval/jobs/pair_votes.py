"""Votes on pairs of systems, from wherever they are kept: Arena exports, tables, pairwise annotation."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dialeval import files
from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.statistics.pairwise import Ranking, bradley_terry

COLUMNS = {
    "item": ("item", "question_id", "id", "dialogue_id"),
    "first": ("first", "model_a", "a"),
    "second": ("second", "model_b", "b"),
    "winner": ("winner", "preference", "vote"),
    "rater": ("rater", "judge"),
}
_FIRST, _SECOND = {"first", "model_a", "a", "1"}, {"second", "model_b", "b", "0"}
_TIE = {"tie", "tie (bothbad)", "both_bad", "both bad", "draw", "0.5"}
_MARKS = ("**", "#", "- ", "* ", "`", "|")


class PairVote(NamedTuple):
    """One vote: which system stood first, which second, 1 for the first, 0 for the second, .5 for a tie."""

    item: str
    first: str
    second: str
    outcome: float
    styles: tuple[Mapping[str, float], Mapping[str, float]] | None = None
    """Length and Markdown of both replies, where the file has them."""


def rank_pairs(
    path: Path,
    columns: str | None = None,
    *,
    chats: Iterable[Dialogue] = (),
    style: bool = False,
    position: bool = False,
    **options: Any,
) -> tuple[Ranking, list[str]]:
    """Fit strengths of systems to a file of votes.

    Args:
        path: A table of votes (CSV, JSONL; Arena's own names are known), or scores of a pairwise scheme.
        columns: `item=…,first=…,second=…,winner=…` where columns are called otherwise.
        chats: What the systems said, for `style` where the votes do not hold it.
        style: Whether length and Markdown are taken out.
        position: Whether standing first is.
        **options: Those of `bradley_terry`.

    Returns:
        The ranking, and what a person should know.
    """
    votes, notes = read_votes(path, columns)
    covariates: dict[str, Any] = {}
    if style:
        known = {(c.id, c.system): _style([c.turns[turn].text for turn in scored_turns(c)]) for c in chats}
        styles = [one.styles or _styles(one, known) for one in votes]
        for name in ("words", "Markdown"):
            gaps = np.array([first[name] - second[name] for first, second in styles])
            if np.ptp(gaps) > 0:
                covariates[name] = gaps / np.std(gaps)
            else:
                notes.append(f"{name}: no difference in any pair, left out")
    if position:
        covariates["standing first"] = np.ones(len(votes))
    first, second, outcomes = ([one[place] for one in votes] for place in (1, 2, 3))
    items = np.unique([one.item for one in votes], return_inverse=True)[1]
    found = bradley_terry(first, second, outcomes, items, covariates, **options)  # type: ignore[arg-type]
    return found, notes + _swaps(votes)


def read_votes(path: Path, columns: str | None = None) -> tuple[list[PairVote], list[str]]:
    """Read votes; rows without one of the known answers are counted and left out."""
    rows = list(_rows(path))
    if not rows:
        raise DataError("no votes", file=path)
    if {"dialogue_id", "source", "value"} <= rows[0].keys() or path.suffix == ".parquet":
        return _from_scores(Scores.read(path)), []
    named = _named(path, rows[0], columns)
    votes, unknown = [], 0
    for number, row in enumerate(rows, 1):
        said = str(row.get(named["winner"]) or "").strip().lower()
        first, second = (str(row.get(named[side]) or "") for side in ("first", "second"))
        known = {first.lower(): 1.0, second.lower(): 0.0} | dict.fromkeys(_FIRST, 1.0)
        outcome = (known | dict.fromkeys(_SECOND, 0.0) | dict.fromkeys(_TIE, 0.5)).get(said)
        if outcome is None or not first or not second:
            unknown += 1
            continue
        item = str(row[named["item"]]) if named["item"] else f"row {number}"
        votes.append(PairVote(item, first, second, outcome, _told(row)))
    if not votes:
        raise DataError("no row is a vote", file=path, field=named["winner"], fix="model_a, model_b or tie")
    return votes, [f"{unknown} rows are no votes and left out"] if unknown else []


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    if path.suffix == ".parquet":
        return [{"dialogue_id": "", "source": "", "value": ""}]
    try:
        with files.open_binary(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix="save it as UTF-8") from None
    if path.suffix.lower() == ".csv":
        import csv

        try:
            return list(csv.DictReader(text.splitlines()))
        except csv.Error as error:
            raise DataError(f"not a table: {error}", file=path) from None
    made = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", file=path, line=number) from None
        if row is not None and not isinstance(row, dict):
            raise DataError("a vote is an object", file=path, line=number)
        made += [row] if row else []
    return made


def _named(path: Path, row: Mapping[str, Any], columns: str | None) -> dict[str, str]:
    given = dict(part.partition("=")[::2] for part in (columns or "").split(",") if part)
    if unknown := given.keys() - COLUMNS.keys():
        raise UsageError(f"--columns: no {min(unknown)!r}; known: {', '.join(COLUMNS)}")
    found = {}
    for name, usual in COLUMNS.items():
        found[name] = given.get(name) or next((one for one in usual if one in row), "")
        if (found[name] and found[name] not in row) or (
            not found[name] and name in ("first", "second", "winner")
        ):
            raise DataError(
                f"no column {found[name] or name!r}; the file has: {', '.join(row)}",
                file=path,
                fix="say which column holds what: --columns item=…,first=…,second=…,winner=…",
            )
    return found


def _from_scores(scores: Scores) -> list[PairVote]:
    """Read what a pairwise scheme exports: 1, .5 or 0 for each side, by rater and item."""
    sides: dict[tuple[Any, ...], list[Score]] = defaultdict(list)
    votes = []
    for row in scores:
        name, _, other = row.dimension.partition(".")
        if row.value not in (0, 0.5, 1) or row.system is None or not name.startswith("preference"):
            continue
        if other and row.system < other:
            votes.append(PairVote(_item(row), row.system, other, row.value))
        elif not other:
            sides[row.dialogue_id, row.turn, row.source].append(row)
    for pair in sides.values():
        if len(pair) == 2:
            a, b = sorted(pair, key=lambda row: row.system or "")
            votes.append(PairVote(_item(a), a.system or "", b.system or "", a.value or 0.0))
    if not votes:
        raise DataError(
            "no votes on two systems in these scores", fix="export a pairwise scheme, or give a table"
        )
    return votes


def _item(row: Score) -> str:
    return row.dialogue_id if row.turn is None else f"{row.dialogue_id}, turn {row.turn}"


def _style(texts: Sequence[str]) -> dict[str, float]:
    marks = sum(
        line.lstrip().startswith(_MARKS) or "**" in line for text in texts for line in text.splitlines()
    )
    return {"words": float(np.log1p(sum(len(text.split()) for text in texts))), "Markdown": float(marks)}


def _told(row: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]] | None:
    """Return the styles of Arena's `conversation_a` and `conversation_b`, if the vote holds them."""
    made = []
    for name in ("conversation_a", "conversation_b"):
        said = row.get(name)
        if not isinstance(said, list):
            return None
        made.append(_style([str(one.get("content") or "") for one in said if one.get("role") == "assistant"]))
    return made[0], made[1]


def _styles(
    vote: PairVote, known: Mapping[tuple[str, str | None], Mapping[str, float]]
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    item = vote.item.partition(", turn ")[0]
    try:
        return known[item, vote.first], known[item, vote.second]
    except KeyError:
        raise UsageError(
            f"--style: nothing is known of what {vote.first} and {vote.second} said in {item!r}; give --chats"
        ) from None


def _swaps(votes: Sequence[PairVote]) -> list[str]:
    """Say how often a vote turned when the two stood the other way round."""
    met: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for one in votes:
        met[one.item, one.first, one.second].append(one.outcome)
    pairs = [
        (np.mean(said), 1 - np.mean(met[item, second, first]))
        for (item, first, second), said in met.items()
        if first < second and (item, second, first) in met
    ]
    if not pairs:
        return []
    turned = sum((a > 0.5) != (b > 0.5) or (a < 0.5) != (b < 0.5) for a, b in pairs)
    return [f"{len(pairs)} pairs were seen in both orders: {turned} verdicts turned with the order"]
