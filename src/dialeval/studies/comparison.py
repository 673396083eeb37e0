"""The records of a comparison of versions, which print as a table, show in a notebook and save to JSON."""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from dialeval import files
from dialeval.scores import display, is_fault
from dialeval.statistics import Estimate
from dialeval.studies.excerpts import Excerpt
from dialeval.studies.findings import Finding
from dialeval.studies.turn_scores import TurnScale

Verdict = Literal["better", "worse", "more", "less", "not told apart"]
_WORDS = ("worse", "better")
_FAULT_UNITS = {
    "rules": "share of dialogues with the fault",
    "faults": "faults in a hundred replies (faultless: mean probability that a reply has none)",
}
HEADER = ("score", "verdict", "old → new", "difference", "interval", "p", "items", "dialogues for half of it")


class ComparedColumn(Finding, frozen=True):
    """One column of scores of a version, compared with the same column of the first version.

    Attributes:
        version, source, dimension: The column.
        better: Which direction is good: `higher`, `lower` or `neither`.
        paired: Whether the same items were scored in both versions.
        old, new: The means of the first version and of this one, with intervals.
        difference: New minus old, with an interval.
        p: The p-value of approximate randomisation if paired, else of a permutation test of means; None
            where all values are the same.
        p_holm: The p-value after Holm's correction over the columns of its family; the verdict uses it.
        verdict: The result in a word; `more` and `less` where neither direction is good.
        dialogues_for_half: Dialogues per version that would show half of the difference (power .8).
        main: Whether it is the overall figure of its source; the others show in what a version differs.
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
        """The name as `source/dimension`."""
        return f"{self.source}/{self.dimension}"

    @property
    def short(self) -> str:
        """The label, or the source alone where the dimension has the same name."""
        return self.source if self.source == self.dimension else self.label

    @property
    def counts(self) -> str:
        """The number of items, of both sides where these differ."""
        return f"{self.new.n}" if self.new.n == self.old.n else f"{self.old.n} and {self.new.n}"

    @property
    def pairing(self) -> str:
        """The kind of the test: `paired` or `unpaired`."""
        return "paired" if self.paired else "unpaired"

    @property
    def is_silent(self) -> bool:
        """Return whether both sides are 0 throughout, or have no value at all."""
        return not self.main and self.p is None and not self.old.value and not self.new.value


class ComparedVersion(Finding, frozen=True):
    """A version, its number of scored dialogues, and how these were paired with those of the first."""

    name: str
    dialogues: int
    partners: str = ""


class Comparison(Finding, frozen=True, kw_only=True):
    """Versions of a system compared with the first of them. `print(comparison)` shows the table.

    Attributes:
        versions: The versions; all others are compared with the first.
        level: What an item is: a turn or a dialogue.
        alpha: The significance level of the verdicts.
        alternative: `two-sided`, or `worse` for a gate that only looks for drops.
        columns: The default metric first, then every other column that both versions have.
        unscored: Shares of unscored rows, for each column with any in a new version; always one-sided.
        turns: Replies of new versions to read, the worst first; `scale` is the score they were chosen by.
        signatures: The signatures of the sources.
        notes: Notes for the reader.
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
        return tuple(dict.fromkeys(column.label for column in self.columns if column.verdict == "worse"))

    @property
    def more_unscored(self) -> tuple[str, ...]:
        """The columns whose share of unscored rows rose significantly."""
        return tuple(dict.fromkeys(column.label for column in self.unscored if column.verdict == "worse"))

    @property
    def passed(self) -> bool:
        """True when nothing dropped significantly."""
        return not self.worse

    @property
    def summary(self) -> str:
        """The result of the default metric for each new version, in a sentence."""
        first, sentences = self.versions[0].name, []
        for version in self.versions[1:]:
            columns = [column for column in self.columns if column.version == version.name]
            main = next((column for column in columns if column.better != "neither"), None)
            if main is not None:
                joined = "from" if main.verdict == "not told apart" else "than"
                sentences.append(f"By {main.short}, {version.name} is {main.verdict} {joined} {first}.")
            else:
                names = ", ".join(column.short for column in columns)
                sentences.append(
                    f"No score says whether {version.name} is better than {first}: "
                    f"neither direction of {names} is better."
                )
            by_verdict = {
                word: [column.short for column in columns if column.verdict == word and column is not main]
                for word in _WORDS
            }
            sentences += [
                f"{'Also' if main and main.verdict == word else 'But'} {word}: {', '.join(names)}."
                for word, names in by_verdict.items()
                if names
            ]
        return " ".join(sentences)

    def shown(self) -> tuple[ComparedColumn, ...]:
        """Return the columns that a table shows.

        Columns that are 0 in both versions are left out, and columns without a good direction if their
        source has others with one.
        """
        good = {column.source for column in self.columns if column.better != "neither"}
        return tuple(
            column
            for column in self.columns
            if not column.is_silent and (column.better != "neither" or column.source not in good)
        )

    @property
    def not_found(self) -> tuple[str, ...]:
        """The columns that are 0 in all versions."""
        found = {column.short for column in self.columns if not column.is_silent}
        return tuple(dict.fromkeys(column.short for column in self.columns if column.short not in found))

    @property
    def legend(self) -> str:
        """What the table's figures are: their units, the interval and the test."""
        sources = {column.source for column in self.shown() if is_fault(column.source, column.dimension)}
        units = _FAULT_UNITS if self.level == "dialogue" else {}
        counted = "".join(f"{name}: {unit}. " for name, unit in units.items() if name in sources)
        tested = "two-sided" if self.alternative == "two-sided" else "one-sided"
        return (
            f"Items are {self.level}s. {counted}Difference: new minus old, with a 95 % interval. "
            f"p: {tested}, Holm-corrected for the number of scores, separately for overall figures. "
            f"{HEADER[-1].capitalize()}: per version, to show half of this difference with a power of .8."
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text, under `HEADER`."""
        several = len(self.versions) > 2
        return [
            (
                (f"{column.version}: " if several else "") + column.short,
                column.verdict,
                f"{_figure(column.old.value)} → {_figure(column.new.value)}",
                _figure(column.difference.value),
                ""
                if column.difference.low is None
                else f"[{_figure(column.difference.low)}, {_figure(column.difference.high)}]",
                _figure(column.p_holm),
                f"{column.counts} {column.pairing}",
                "-" if column.dialogues_for_half is None else f"{column.dialogues_for_half:,}",
            )
            for column in self.shown()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and lists."""
        outcome = {"summary": self.summary, "passed": self.passed, "worse": self.worse}
        body: dict[str, Any] = msgspec.to_builtins(self)
        return {"version": self.version, **outcome, "more_unscored": self.more_unscored, **body}

    def save(self, path: str | Path) -> None:
        """Write the comparison as JSON."""
        files.write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False))

    def __str__(self) -> str:
        return f"{self.summary}\n{display.to_text(HEADER, self.rows())}"

    def _repr_html_(self) -> str:
        return display.to_html(self.summary, HEADER, self.rows(), self.legend)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
