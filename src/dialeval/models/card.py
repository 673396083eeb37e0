"""The model card of an artefact: description, data, figures and limits.

A card is written from the run that made the artefact, so that no figure in it is typed by hand.
"""

import json
import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from dialeval.errors import UsageError

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_MARKUP = re.compile(r"([\\`*_\[\]|#~])")
_USE = {
    "encoder.v1": (
        "from dialeval.models.encoder import Encoder",
        "encoder = Encoder.load({name})",
        'print(encoder.vectors(["How far is the station?"]).shape)',
    )
}
_ANY_USE = (
    "from dialeval.models import artefact",
    "found = artefact.load({name})  # every byte is checked",
    "print(found.kind, found.sha)",
)


@dataclass(frozen=True)
class Card:
    """The content of `README.md` in an artefact.

    `title` and table cells are plain text and are escaped; `description` and `limits` are Markdown.
    """

    title: str
    description: str
    _: KW_ONLY
    licence: str
    """An identifier of the Hub (`apache-2.0`, `cc-by-nc-4.0`), or any other name."""
    command: str
    """The command that rebuilds it from the data."""
    data: Sequence[tuple[str, str, str]] = ()
    """Name, licence and a note for each set it learned from or was chosen by."""
    figures: Mapping[str, float] = field(default_factory=dict)
    limits: str | Sequence[str] = ()
    extra: Sequence[tuple[str, str]] = ()
    """Further facts as rows of name and value."""
    tags: Sequence[str] = ()
    name: str = ""
    """The name that `load` takes: a shipped name or a Hub id; by default "this-folder"."""
    python: str = ""
    """How to use it from Python; by default how to load it."""
    shell: str = ""
    """How to use it from the command line; by default how to list what there is."""

    def markdown(self, kind: str = "") -> str:
        r"""Write the card; `kind` is the artefact's class.

        >>> figures = {"dev F1": 0.84251}
        >>> card = Card("Small", "Tells a from b.", licence="MIT", command="make it", figures=figures)
        >>> print(*card.markdown().splitlines()[:8], sep="\n")
        ---
        license: "mit"
        library_name: "dialeval"
        tags:
        - "dialogue-evaluation"
        ---
        <BLANKLINE>
        # Small
        >>> card.markdown().count("| dev F1 | 0.84251 |")
        1

        Raises:
            UsageError: A figure is not a finite number.
        """
        limits = [self.limits] if isinstance(self.limits, str) else list(self.limits)
        facts = [("class", kind), *self.extra] if kind else self.extra
        figures = [(name, _figure(name, value)) for name, value in self.figures.items()]
        parts = [
            self._front_matter(),
            f"# {_plain(self.title)}",
            _clean(self.description).strip(),
            _table(("fact", "value"), facts) if facts else "",
            f"## How to use it\n\n{self._use(kind)}",
            f"## Data\n\n{_table(('data', 'licence', 'note'), self.data) or 'It learned from no data.'}",
            f"Licence of this artefact: {_plain(self.licence)}",
            f"## Figures\n\n{_table(('figure', 'value'), figures) or 'Not measured yet.'}",
            "## Limits\n\n"
            + (
                "\n".join(f"- {' '.join(_clean(limit).split())}" for limit in limits if limit)
                or "None are known yet."
            ),
            f"## How to rebuild it\n\n{_fenced('shell', self.command)}",
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _front_matter(self) -> str:
        licence = self.licence.strip().lower()
        lines = [f"license: {_quoted(licence)}"]
        if not re.fullmatch(
            r"[a-z0-9.+-]+", licence
        ):  # the Hub has identifiers; all else is "other", by name
            named = re.sub(r"[^a-z0-9.]+", "-", licence).strip("-") or "unnamed"
            lines = ['license: "other"', f"license_name: {_quoted(named)}"]
        lines += [f"library_name: {_quoted('dialeval')}", "tags:"]
        lines += [f"- {_quoted(tag)}" for tag in dict.fromkeys(["dialogue-evaluation", *self.tags])]
        return "\n".join(["---", *lines, "---"])

    def _use(self, kind: str) -> str:
        name = json.dumps(self.name or "this-folder")
        python = self.python or "\n".join(_USE.get(kind, _ANY_USE)).format(name=name)
        return f"{_fenced('python', python)}\n\n{_fenced('shell', self.shell or 'dialeval models list')}"


def _figure(name: str, value: float) -> str:
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if not math.isfinite(value):
        raise UsageError(f"the figure {name!r} is {value}: leave out undefined figures")
    return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[_plain(str(cell)) or " " for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if cells else ""


def _plain(text: str) -> str:
    """Return text as one line with Markdown and HTML escaped."""
    line = " ".join(_clean(text).split())
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def _clean(text: str) -> str:
    return _UNSEEN.sub("\ufffd", text.replace("\r\n", "\n"))


def _quoted(text: str) -> str:
    """Return a quoted string that is valid JSON and YAML."""
    return json.dumps(_clean(text), ensure_ascii=False)


def _fenced(language: str, text: str) -> str:
    """Return a code block with a fence that the code does not contain."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{_clean(text).strip()}\n{fence}"
