"""The eleven segment acts of FlowEval, in three dimensions.

`acts.toml`, beside this file, defines each act and gives examples, some with the turn before: "Sorry" alone
is an apology after a mishap and a request to repeat after an unclear turn.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dialeval.dialogues.dialogue import Turn
from dialeval.errors import DataError

_TAGSET = Path(__file__).with_name("acts.toml")


@dataclass(frozen=True, slots=True)
class ActExample:
    """A segment, and the turn before it where the act depends on it."""

    text: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """One label: its canonical name, its dimension, its definition, and example segments."""

    name: str
    dimension: str
    definition: str
    examples: tuple[ActExample, ...]


@cache
def acts() -> tuple[Act, ...]:
    """Return all acts, in the order of the paper's Table 4.

    >>> acts()[6].name, acts()[6].dimension, acts()[6].examples[0].text
    ('apology', 'social obligation management', "I'm so sorry I forgot your birthday.")
    """
    entries = tomllib.loads(_TAGSET.read_text(encoding="utf-8"))["acts"]
    return tuple(
        Act(
            name,
            entry["dimension"],
            entry["definition"],
            tuple(ActExample(example["text"], example.get("before")) for example in entry["examples"]),
        )
        for name, entry in entries.items()
    )


ACTS: tuple[str, ...] = (
    "inform",
    "question",
    "directive",
    "commissive",
    "greeting",
    "goodbye",
    "apology",
    "thanking",
    "backchannel-success",
    "backchannel-failure",
    "check-understanding",
)


def folded(label: str) -> str:
    """Return the normal spelling of an act of any inventory: lower case, hyphens between words.

    >>> folded("Request_Location")
    'request-location'
    """
    return "-".join(label.lower().replace("_", " ").replace("-", " ").split())


def canonical(label: str) -> str:
    """Return the canonical name of an act: other capitals, `_` or a blank for the hyphen are accepted.

    >>> canonical("Backchannel_Success")
    'backchannel-success'
    """
    name = folded(label)
    if name not in ACTS:
        raise DataError(f"unknown act {label[:60]!r}; known: {', '.join(ACTS)}", field="act")
    return name


@dataclass(frozen=True, slots=True)
class Annotation:
    """A segment in a turn's meta: its act as spelt there, and the votes of raters (None: skipped)."""

    text: str
    act: str | None
    votes: tuple[str | None, ...] | None = None


def annotations(turn: Turn) -> list[Annotation] | None:
    """Return the annotated segments of a turn, those without text included; None if it has none.

    >>> annotations(Turn("user", "Hey.", {"segments": [{"text": "Hey.", "act": "greeting"}]}))
    [Annotation(text='Hey.', act='greeting', votes=None)]
    """
    entries = turn.meta.get("segments")
    if entries is None:
        return None
    if not isinstance(entries, list):
        raise _malformed(entries)
    return [_annotation(entry) for entry in entries]


def _annotation(entry: object) -> Annotation:
    if not isinstance(entry, dict):
        raise _malformed(entry)
    text, act, votes = entry.get("text"), entry.get("act"), entry.get("votes")
    valid_votes = votes is None or (
        isinstance(votes, list | tuple) and all(vote is None or isinstance(vote, str) for vote in votes)
    )
    if not (isinstance(text, str) and (act is None or isinstance(act, str)) and valid_votes):
        raise _malformed(entry)
    return Annotation(text, act, None if votes is None else tuple(votes))


def _malformed(value: object) -> DataError:
    return DataError(
        f"not a list of segments: {str(value)[:80]!r}",
        field="meta.segments",
        fix='[{"text": "Hey.", "act": "greeting"}, …], "votes": ["greeting", null] where there are',
    )
