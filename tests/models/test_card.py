"""Model cards: figures from a run, and text that stays text."""

import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dialeval.errors import UsageError
from dialeval.models.card import Card

UNSEEN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
HOSTILE = [
    "a|b",
    "a\\|b",
    "a\nb",
    "a\r\nb",
    "---",
    "x\n---\nlicense: mit",
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "`code`",
    '"quoted": {}',
    "\x00\x1b[2J",
    "\u2028\u2029\x85",
    "\ud800",
    "!!python/object",
    "&amp;",
    "",
]


def card(**changes: Any) -> Card:
    usual: dict[str, Any] = {
        "title": "Turn quality, small",
        "description": "Says how good a turn is.",
        "licence": "cc-by-nc-4.0",
        "command": "dialeval train turn-quality logs.jsonl -o mine/",
        "data": [("FED", "unknown", "dev only"), ("DailyDialog", "CC BY-NC-SA 4.0", "11,118 dialogues")],
        "figures": {"dev Spearman": 0.512345678, "n": 4713},
        "limits": ("English only.", "Untested on task-oriented dialogue."),
    }
    return Card(**(usual | changes))


def front_matter(text: str) -> dict[str, Any]:
    """Read the front matter back: every value is a string as JSON has it, and lists have one level."""
    head, _, _ = text.removeprefix("---\n").partition("\n---\n")
    found: dict[str, Any] = {}
    for line in head.split("\n"):
        if line.startswith("- "):
            found["tags"].append(json.loads(line[2:]))
        elif line == "tags:":
            found["tags"] = []
        else:
            key, _, value = line.partition(": ")
            found[key] = json.loads(value)
    return found


def rows(text: str) -> list[list[str]]:
    """Split the table rows of Markdown at pipes that are not escaped."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    return [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in lines]


def test_it_has_what_a_reader_needs() -> None:
    text = card(extra=[("parameters", "22,700,000")], name="org/mine").markdown("encoder.v1")
    assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == [
        "Turn quality, small",
        "How to use it",
        "Data",
        "Figures",
        "Limits",
        "How to rebuild it",
    ]
    assert front_matter(text) == {
        "license": "cc-by-nc-4.0",
        "library_name": "dialeval",
        "tags": ["dialogue-evaluation"],
    }
    for line in (
        "| DailyDialog | CC BY-NC-SA 4.0 | 11,118 dialogues |",
        "| dev Spearman | 0.51235 |",
        "| n | 4713 |",
        "| parameters | 22,700,000 |",
        "| class | encoder.v1 |",
        "- English only.",
        'encoder = Encoder.load("org/mine")',
        "dialeval train turn-quality logs.jsonl -o mine/",
        "Licence of this artefact: cc-by-nc-4.0",
    ):
        assert line in text.split("\n")


def test_the_way_to_use_it_is_python_that_parses() -> None:
    for kind in ("encoder.v1", "gguf.v1", ""):
        for name in ("mine", 'a"; import os #', "{x}", "C:\\x"):
            text = card(name=name).markdown(kind)
            (code,) = re.findall(r"^```python\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
            assert len(code.split("\n")) == 3
            compile(code, "card", "exec")


def test_a_card_of_nothing_says_so() -> None:
    text = card(data=(), figures={}, limits=()).markdown()
    for words in ("It learned from no data.", "Not measured yet.", "None are known yet."):
        assert words in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_undefined_figures_are_refused(value: float) -> None:
    with pytest.raises(UsageError, match="'dev F1' is"):
        card(figures={"dev F1": value}).markdown()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.5, "0.5"), (np.float32(0.25), "0.25"), (np.int64(7), "7"), (123456.7, "123457")),
        *((1e-9, "1e-09"), (0, "0"), (10_000_000, "10000000"), (-0.123456789, "-0.12346")),
    ],
)
def test_figures_are_readable(value: float, shown: str) -> None:
    assert f"| x | {shown} |" in card(figures={"x": value}).markdown()


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("Apache-2.0", {"license": "apache-2.0"}),
        ("CC BY-NC-SA 4.0", {"license": "other", "license_name": "cc-by-nc-sa-4.0"}),
        ('"\nevil: 1', {"license": "other", "license_name": "evil-1"}),
        ("", {"license": "other", "license_name": "unnamed"}),
    ],
)
def test_licences(licence: str, expected: dict[str, str]) -> None:
    found = front_matter(card(licence=licence).markdown())
    assert {key: value for key, value in found.items() if key.startswith("license")} == expected


@pytest.mark.parametrize("payload", HOSTILE)
def test_hostile_text_stays_text(payload: str) -> None:
    usual = card(extra=[("fact", "value")], tags=["tag"])
    hostile = card(
        title=payload,
        data=[(payload, payload, payload)] * 2,
        figures={payload: 1.0, "n": 1},
        extra=[(payload, payload)],
        tags=[payload],
        command=payload,
        limits=[payload or "x", "y"],
    )
    text = hostile.markdown()
    text.encode()
    assert list(front_matter(text)) == list(front_matter(usual.markdown()))
    assert [len(row) for row in rows(text)] == [len(row) for row in rows(usual.markdown())]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == re.findall(
        r"^## (.+)$", usual.markdown(), re.MULTILINE
    )
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", text)
    tables = "\n".join(line for line in text.split("\n") if line.startswith(("|", "# ")))
    assert "<script" not in tables
    assert not re.search(r"(?<!\\)\[", tables)


BETWEEN = "what stands between the payloads, longer than they are"


@given(st.text(max_size=30))
def test_a_renderer_shows_cells_as_they_were(payload: str) -> None:
    text = card(data=[(payload, BETWEEN, payload)]).markdown()
    page = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    cells = [inner for before, inner in pairwise(page) if before.type == "td_open"]
    texts = [shown_text(cell.children or []) for cell in cells]
    place = texts.index(BETWEEN)
    expected = " ".join(re.sub(UNSEEN, "\ufffd", payload.replace("\r\n", "\n")).split())
    assert texts[place - 1] == texts[place + 1] == expected


def shown_text(tokens: list[Any]) -> str:
    """The text of a cell, provided that nothing in it became a link, an image, a tag or emphasis."""
    assert {token.type for token in tokens} <= {"text", "text_special"}
    return "".join(token.content for token in tokens)


@given(st.text())
def test_a_command_cannot_leave_its_fence(command: str) -> None:
    text = card(command=command + "\n```\n# out").markdown()
    tail = text.partition("## How to rebuild it\n\n")[2].split("\n")
    fence = tail[0].removesuffix("shell")
    assert set(fence) == {"`"}
    assert tail[-2] == fence
    assert fence not in "\n".join(tail[1:-2])


def test_same_card_same_bytes_and_values() -> None:
    assert card() == card()
    assert card().markdown("gguf.v1") == card().markdown("gguf.v1")
