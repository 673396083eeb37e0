"""Votes on pairs of systems: Arena exports, tables, pairwise annotation."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import DataError, UsageError
from dialeval.scores import Score, Scores
from dialeval.scores.columns import records
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
    """One vote: the system shown first, the other one, and 1 (the first), 0 (the second) or .5 (a tie)."""

    item: str
    first: str
    second: str
    outcome: float
    styles: tuple[Mapping[str, float], Mapping[str, float]] | None = None
    """Length and Markdown of both replies, if the file has them."""


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
        columns: Column names, as `item=…,first=…,second=…,winner=…`.
        chats: The dialogues of the systems, for `style`, if the votes lack them.
        style: Whether to control for length and Markdown.
        position: Whether to control for the position.
        **options: Those of `bradley_terry`.

    Returns:
        The ranking, and notes for the user.
    """
    votes, notes = read_votes(path, columns)
    covariates: dict[str, Any] = {}
    if style:
        styles_by_reply = {
            (c.id, c.system): _style([c.turns[turn].text for turn in scored_turns(c)]) for c in chats
        }
        styles = [vote.styles or _styles(vote, styles_by_reply) for vote in votes]
        for name in ("words", "Markdown"):
            gaps = np.array([first[name] - second[name] for first, second in styles])
            if np.ptp(gaps) > 0:
                covariates[name] = gaps / np.std(gaps)
            else:
                notes.append(f"{name}: no difference in any pair, left out")
    if position:
        covariates["standing first"] = np.ones(len(votes))
    first, second, outcomes = ([vote[place] for vote in votes] for place in (1, 2, 3))
    items = np.unique([vote.item for vote in votes], return_inverse=True)[1]
    ranking = bradley_terry(first, second, outcomes, items, covariates, **options)  # type: ignore[arg-type]
    return ranking, notes + _swaps(votes)


def read_votes(path: Path, columns: str | None = None) -> tuple[list[PairVote], list[str]]:
    """Read votes; rows without one of the known answers are counted and left out."""
    rows = [row for _, row in records(path)]
    if not rows:
        raise DataError("no votes", file=path)
    if {"dialogue_id", "source", "value"} <= rows[0].keys() or path.suffix == ".parquet":
        return _from_scores(Scores.read(path)), []
    named = _named(path, rows[0], columns)
    votes, unknown = [], 0
    for number, row in enumerate(rows, 1):
        answer = str(row.get(named["winner"]) or "").strip().lower()
        first, second = (str(row.get(named[side]) or "") for side in ("first", "second"))
        outcomes = {first.lower(): 1.0, second.lower(): 0.0} | dict.fromkeys(_FIRST, 1.0)
        outcome = (outcomes | dict.fromkeys(_SECOND, 0.0) | dict.fromkeys(_TIE, 0.5)).get(answer)
        if outcome is None or not first or not second:
            unknown += 1
            continue
        item = str(row[named["item"]]) if named["item"] else f"row {number}"
        votes.append(PairVote(item, first, second, outcome, _conversation_styles(row)))
    if not votes:
        raise DataError("no row is a vote", file=path, field=named["winner"], fix="model_a, model_b or tie")
    return votes, [f"{unknown} rows without a vote were left out"] if unknown else []


def _named(path: Path, row: Mapping[str, Any], columns: str | None) -> dict[str, str]:
    chosen = dict(part.partition("=")[::2] for part in (columns or "").split(",") if part)
    if unknown := chosen.keys() - COLUMNS.keys():
        raise UsageError(f"--columns: no {min(unknown)!r}; known: {', '.join(COLUMNS)}")
    resolved = {}
    for name, usual in COLUMNS.items():
        resolved[name] = chosen.get(name) or next((alias for alias in usual if alias in row), "")
        if (resolved[name] and resolved[name] not in row) or (
            not resolved[name] and name in ("first", "second", "winner")
        ):
            raise DataError(
                f"no column {resolved[name] or name!r}; the file has: {', '.join(row)}",
                file=path,
                fix="name the columns: --columns item=…,first=…,second=…,winner=…",
            )
    return resolved


def _from_scores(scores: Scores) -> list[PairVote]:
    """Return votes from the scores of a pairwise scheme: 1, .5 or 0 for each side, by rater and item."""
    sides: dict[tuple[Any, ...], list[Score]] = defaultdict(list)
    votes = []
    for row in scores:
        name, _, opponent = row.dimension.partition(".")
        if row.value not in (0, 0.5, 1) or row.system is None or not name.startswith("preference"):
            continue
        if opponent and row.system < opponent:
            votes.append(PairVote(_item(row), row.system, opponent, row.value))
        elif not opponent:
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


def _conversation_styles(row: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]] | None:
    """Return the styles of Arena's `conversation_a` and `conversation_b`, if the vote holds them."""
    styles = []
    for name in ("conversation_a", "conversation_b"):
        conversation = row.get(name)
        if not isinstance(conversation, list):
            return None
        replies = [message for message in conversation if message.get("role") == "assistant"]
        styles.append(_style([str(reply.get("content") or "") for reply in replies]))
    return styles[0], styles[1]


def _styles(
    vote: PairVote, styles_by_reply: Mapping[tuple[str, str | None], Mapping[str, float]]
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    item = vote.item.partition(", turn ")[0]
    try:
        return styles_by_reply[item, vote.first], styles_by_reply[item, vote.second]
    except KeyError:
        raise UsageError(
            f"--style needs the replies of {vote.first} and {vote.second} in {item!r}: give --chats"
        ) from None


def _swaps(votes: Sequence[PairVote]) -> list[str]:
    """Count how often the vote on a pair changed when its order was swapped."""
    met: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for vote in votes:
        met[vote.item, vote.first, vote.second].append(vote.outcome)
    pairs = [
        (np.mean(outcomes), 1 - np.mean(met[item, second, first]))
        for (item, first, second), outcomes in met.items()
        if first < second and (item, second, first) in met
    ]
    if not pairs:
        return []
    turned = sum((a > 0.5) != (b > 0.5) or (a < 0.5) != (b < 0.5) for a, b in pairs)
    return [f"{len(pairs)} pairs were seen in both orders: {turned} verdicts changed with the order"]
