"""A comparison of versions: typed records that print as a table, show in a notebook and save to JSON."""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from dialeval import files
from dialeval.scores import display
from dialeval.statistics import Estimate
from dialeval.studies.excerpts import Excerpt
from dialeval.studies.findings import Finding
from dialeval.studies.turn_scores import TurnScale

Verdict = Literal["better", "worse", "more", "less", "not told apart"]
_WORDS = ("worse", "better")
HEADER = ("score", "verdict", "old → new", "difference", "interval", "p", "items", "dialogues for half of it")


class ComparedColumn(Finding, frozen=True):
    """One column of scores of a version, held against the same column of the first version.

    Attributes:
        version, source, dimension: Whose numbers they are.
        better: Which way is good: `higher`, `lower` or `neither`.
        paired: Whether the same items were scored on both sides.
        old, new: The means of the first version and of this one, with intervals.
        difference: New minus old, with an interval.
        p: Of the test: approximate randomisation if paired, a permutation of means if not; None where both
            sides have one and the same value.
        p_holm: The same after Holm's correction over the columns of its family: what the verdict goes by.
        verdict: In a word; `more` and `less` where neither way is good.
        dialogues_for_half: Dialogues of each version that would show half of the difference (power .8).
        main: Whether it is its source's overall figure; the others say where a version differs.
    """

    version: str
    source: str
    dimension: str
    better: Literal["higher", "lower", "neither"]
    paired: bool
    old: Estimate
    new: Estimate
    difference: Estimate
    p: float | None
    p_holm: float | None = None
    verdict: Verdict = "not told apart"
    dialogues_for_half: int | None = None
    main: bool = True

    @property
    def label(self) -> str:
        """Source and dimension."""
        return f"{self.source}/{self.dimension}"

    @property
    def short(self) -> str:
        """The same, the source alone where the dimension repeats it."""
        return self.source if self.source == self.dimension else self.label

    @property
    def is_silent(self) -> bool:
        """Whether both sides are 0 throughout, or have no value at all."""
        return not self.main and self.p is None and not self.old.value and not self.new.value


class ComparedVersion(Finding, frozen=True):
    """A version, how many dialogues of it were scored, and how they found their partners in the first."""

    name: str
    dialogues: int
    partners: str = ""


class Comparison(Finding, frozen=True, kw_only=True):
    """Versions of a system against the first of them. `print(comparison)` shows the table.

    Attributes:
        versions: The versions; all others are held against the first.
        level: What an item is: a turn or a dialogue.
        alpha: The significance level that verdicts go by.
        alternative: `two-sided`, or `worse` for a gate that only looks for drops.
        columns: The default metric first, then every other column that both sides have.
        unscored: Shares of unscored rows, for each column with any in a new version; always one-sided.
        turns: Replies of new versions to read, the worst first; `scale` is the score they were chosen by.
        signatures: How the sources were made.
        notes: What a reader must know.
    """

    version: Literal["comparison.v1"] = "comparison.v1"
    versions: tuple[ComparedVersion, ...]
    level: str
    alpha: float
    alternative: Literal["two-sided", "worse"]
    columns: tuple[ComparedColumn, ...]
    unscored: tuple[ComparedColumn, ...] = ()
    turns: tuple[Excerpt, ...] = ()
    scale: TurnScale | None = None
    signatures: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> tuple[str, ...]:
        """The columns that dropped significantly."""
        return tuple(dict.fromkeys(one.label for one in self.columns if one.verdict == "worse"))

    @property
    def more_unscored(self) -> tuple[str, ...]:
        """The columns whose share of unscored rows rose significantly."""
        return tuple(dict.fromkeys(one.label for one in self.unscored if one.verdict == "worse"))

    @property
    def passed(self) -> bool:
        """True when nothing dropped significantly."""
        return not self.worse

    @property
    def summary(self) -> str:
        """What the default metric says of each new version, in a sentence."""
        first, told = self.versions[0].name, []
        for version in self.versions[1:]:
            own = [one for one in self.columns if one.version == version.name]
            main = next((one for one in own if one.better != "neither"), None)
            if main is not None:
                joined = "from" if main.verdict == "not told apart" else "than"
                told.append(f"By {main.short}, {version.name} is {main.verdict} {joined} {first}.")
            others = {
                word: [one.short for one in own if one.verdict == word and one is not main] for word in _WORDS
            }
            told += [
                f"{'Also' if main and main.verdict == word else 'But'} {word}: {', '.join(names)}."
                for word, names in others.items()
                if names
            ]
        return " ".join(told)

    def shown(self) -> tuple[ComparedColumn, ...]:
        """Return the columns that a table shows.

        Left out is what was not found on either side, and of a source that has a better and a worse, what has
        none.
        """
        good = {one.source for one in self.columns if one.better != "neither"}
        return tuple(
            one
            for one in self.columns
            if not one.is_silent and (one.better != "neither" or one.source not in good)
        )

    @property
    def not_found(self) -> tuple[str, ...]:
        """The columns that are 0 on both sides."""
        return tuple(dict.fromkeys(one.short for one in self.columns if one.is_silent))

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text, under `HEADER`."""
        several = len(self.versions) > 2
        return [
            (
                (f"{one.version}: " if several else "") + one.short,
                one.verdict,
                f"{_figure(one.old.value)} → {_figure(one.new.value)}",
                _figure(one.difference.value),
                "" if one.difference.low is None else _interval(one.difference),
                _figure(one.p_holm),
                _sample(one),
                "-" if one.dialogues_for_half is None else f"{one.dialogues_for_half:,}",
            )
            for one in self.shown()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and lists."""
        told = {"summary": self.summary, "passed": self.passed, "worse": self.worse}
        body: dict[str, Any] = msgspec.to_builtins(self)
        return {"version": self.version, **told, "more_unscored": self.more_unscored, **body}

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        files.write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False))

    def __str__(self) -> str:
        return f"{self.summary}\n{display.to_text(HEADER, self.rows())}"

    def _repr_html_(self) -> str:
        return display.to_html(self.summary, HEADER, self.rows(), f"p: Holm-corrected; {self.level} level.")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _interval(estimate: Estimate) -> str:
    return f"[{_figure(estimate.low)}, {_figure(estimate.high)}]"


def _sample(one: ComparedColumn) -> str:
    n = f"{one.new.n}" if one.new.n == one.old.n else f"{one.old.n} and {one.new.n}"
    return f"{n} {'paired' if one.paired else 'unpaired'}"
