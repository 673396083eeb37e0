"""Explanations: what lines up, what a file gives back, what the page shows and what stays text."""

import html
import random
import re
import time
from collections.abc import Sequence
from functools import cache

import pytest
from explaining_metric import REFERENCE, explanation
from outlines import check_outline
from payloads import PAYLOADS
from report_cases import rendered, talk

from dialeval.dialogues import Dialogue, Turn
from dialeval.errors import DataError
from dialeval.metrics import explanation as why
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side, align, side_by_side
from dialeval.reports import explanations as section
from dialeval.reports.text import visible
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import study

ACTS = tuple("abcdefghijk")


def longest(one: Sequence[str | None], other: Sequence[str | None]) -> int:
    """The length by the definition, for small sequences."""

    @cache
    def of(i: int, j: int) -> int:
        if i == len(one) or j == len(other):
            return 0
        met = of(i + 1, j + 1) + 1 if one[i] is not None and one[i] == other[j] else 0
        return max(met, of(i + 1, j), of(i, j + 1))

    return of(0, 0)


def test_align_pairs_as_many_equal_labels_as_there_can_be() -> None:
    draw = random.Random(4)
    for _ in range(400):
        one, other = (
            [draw.choice(("a", "b", "c", None)) for _ in range(draw.randrange(10))] for _ in range(2)
        )
        pairs = align(one, other)
        assert len(pairs) == longest(one, other)
        assert all(one[i] == other[j] is not None for i, j in pairs)
        assert pairs == tuple(sorted(pairs)) and len({j for _, j in pairs}) == len(pairs)


def test_align_takes_the_earliest_and_leaves_none_alone() -> None:
    assert align(["a"], ["a", "a", "a"]) == ((0, 0),)
    assert align(["a", "a", "b"], ["a", "b"]) == ((0, 0), (2, 1))
    assert align([None, "a"], [None, "a"]) == ((1, 1),)
    assert align([], ["a"]) == align(["a"], []) == ()


def test_align_ten_thousand_and_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    one, other = ([draw.choice(ACTS) for _ in range(10_000)] for _ in range(2))
    began = time.process_time()
    assert len(align(one, other)) > 4_000
    assert time.process_time() - began < 5  # measured: 0.06 s
    monkeypatch.setattr(why, "LONGEST", 50)
    assert max(align(one, one)) == (49, 49)


def test_side_takes_segments_and_leaves_out_who_takes_no_part() -> None:
    turns = (
        Turn("system", "Be kind."),
        Turn(
            "user",
            "Hi. You?",
            {"segments": [{"text": "Hi.", "act": "greeting"}, {"text": None, "act": None}]},
        ),
        Turn("assistant", "Fine", {"segments": {"start": 0.1}}),
        Turn("user", " "),
    )
    side = Side.of(Dialogue("d", turns))
    assert side.turns == (
        ExplainedTurn("user", (Piece("Hi.", "greeting"), Piece("", None)), 1),
        ExplainedTurn("assistant", (Piece("Fine"),), 2),
        ExplainedTurn("user", (), 3),
    )


@pytest.mark.parametrize("aligned", [((0, 9),), ((3, 0),), ((1, 1), (0, 2)), ((0, 1), (1, 1)), ((-1, 0),)])
def test_pairs_that_cannot_be_are_refused(aligned: tuple[tuple[int, int], ...]) -> None:
    own = Side("d", (ExplainedTurn("user", (Piece("a"), Piece("b"), Piece("c"))),))
    with pytest.raises(ValueError, match="forward"):
        Explanation("d", "toy", 0.5, {}, own, REFERENCE, aligned)
    with pytest.raises(ValueError, match="forward"):
        Explanation("d", "toy", 0.5, {}, own, None, ((0, 0),))


def test_what_is_not_finite_is_none() -> None:
    found = Explanation("d", "toy", float("nan"), {"acts": float("inf"), "content": 1}, Side("d", ()))
    assert found.value is None and found.parts == {"acts": None, "content": 1.0}


def test_lines_keep_every_piece_once_and_in_order() -> None:
    draw = random.Random(6)
    for _ in range(100):
        sides = []
        for name in "dr":
            turns = [
                ExplainedTurn(
                    name,
                    tuple(Piece(f"{name}{n}.{m}", draw.choice("ab")) for m in range(draw.randrange(3))),
                    n,
                )
                for n in range(draw.randrange(5))
            ]
            sides.append(Side(name, tuple(turns)))
        found = Explanation("d", "toy", 0.5, {}, *sides, aligned=align(sides[0].labels, sides[1].labels))
        lines = side_by_side(found)
        for cells, side in zip(zip(*(line[:2] for line in lines), strict=True), sides, strict=False):
            there = [cell for cell in cells if cell is not None]
            assert [cell.piece for cell in there if cell.piece] == [
                p for turn in side.turns for p in turn.pieces
            ]
            assert [cell.turn for cell in there if cell.opens] == list(side.turns)
        same = [line for line in lines if line.same]
        assert len(same) == len(found.aligned)
        assert all(line.own.piece.label == line.reference.piece.label for line in same)  # type: ignore[union-attr]


def test_a_file_gives_back_what_was_put_in(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "explanations.jsonl"
    put = [
        Explanation(
            text,
            text,
            -0.5,
            {text: None},
            Side(text, (ExplainedTurn(text, (Piece(text, text),)),)),
            note=text,
        )
        for text in PAYLOADS
    ]
    put.append(explanation(talk("d1", None)))
    path.write_bytes(b"".join(why.to_json(one) + b"\n" for one in put))
    assert list(why.read_explanations(path)) == put


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"nonsense",
        b'{"dialogue_id": "d", "source": "s", "value": "high", "parts": {}, "own": {"id": "d", "turns": []}}',
        b'{"dialogue_id":"d","source":"s","value":1,"parts":{},"own":{"id":"d","turns":[]},"aligned":[[0,0]]}',
        b'{"dialogue_id": "\xff"}',
        b'{"x":' + b"[" * 100_000,
    ],
)
def test_a_broken_line_is_named(tmp_path, line: bytes) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "explanations.jsonl"
    path.write_bytes(why.to_json(explanation(talk("d1", None))) + b"\n" + line + b"\n")
    with pytest.raises(DataError, match=r"explanations.jsonl:2: not an explanation"):
        list(why.read_explanations(path))


def scored(values: Sequence[float | None], way: str = "higher") -> tuple[list[Explanation], Scores]:
    found, rows = [], []
    for number, value in enumerate(values):
        name, system = f"d{number:03}", f"bot-{number % 2}"
        side = Side(name, (ExplainedTurn("user", (Piece(f"said in {name}", "inform"),), 0),))
        found.append(Explanation(name, "toy", value, {"acts": value}, side, REFERENCE, ((0, 2),)))
        rows.append(
            Score(name, None, system, "toy", "overall", value, None if value is not None else "empty")
        )
    return found, Scores.of(rows, {"toy": Signature.parse(f"toy.v1|better:{way}")})


def test_the_ends_of_a_long_stream_are_chosen() -> None:
    values = [(number * 37 % 500) / 500 for number in range(500)]
    found, scores = scored([*values, None])
    made = section.explain(iter(found), scores)
    shown = made.sources[0].shown
    worth = sorted(values)
    assert [reason.explanation.value for reason in shown] == worth[:3] + worth[-3:]
    assert [reason.rank for reason in shown][::5] == [
        "among the worst: rank 500 of 500",
        "among the best: rank 1 of 500",
    ]
    assert (made.sources[0].explained, made.sources[0].unscored) == (501, 1)
    assert shown[0].system == f"bot-{int(shown[0].explanation.dialogue_id[1:]) % 2}"


def test_no_system_is_named_where_several_answered() -> None:
    found, scores = scored([0.5])
    other = Score("d000", None, "bot-9", "toy", "overall", 0.1)
    assert section.explain(found, scores).sources[0].shown[0].system == "bot-0"
    both = Scores.concat([scores, Scores.of([other])])
    assert section.explain(found, both).sources[0].shown[0].system is None


@pytest.mark.parametrize(
    ("way", "first", "words"), [("higher", 0.0, "worst"), ("lower", 0.9, "worst"), ("neither", 0.0, "lowest")]
)
def test_which_end_is_worst(way: str, first: float, words: str) -> None:
    found, scores = scored([number / 10 for number in range(10)], way)
    shown = section.explain(found, scores).sources[0].shown
    assert shown[0].explanation.value == first
    assert words in shown[0].rank and "rank 10 of 10" in shown[0].rank
    assert [reason.good for reason in shown] == [False] * 3 + [True] * 3


def test_frequent_labels_have_a_tint_and_rare_ones_are_grey() -> None:
    pieces = [Piece("x", act) for place, act in enumerate(ACTS) for _ in range(20 - place)]
    found = Explanation("d", "toy", 1.0, {}, Side("d", (ExplainedTurn("user", tuple(pieces[:80])),)))
    made = section.explain([found], Scores.of([]))
    assert list(made.tints.items())[:3] == [("a", 0), ("b", 1), ("c", 2)]
    pieces = [Piece("x", act) for act in ACTS]
    found = Explanation("d", "toy", 1.0, {}, Side("d", (ExplainedTurn("user", tuple(pieces)),)))
    assert set(section.explain([found], Scores.of([])).tints) == set(ACTS[:8])


def page(found: Sequence[Explanation], scores: Scores) -> str:
    return rendered(study(scores, resamples=20, permutations=20), scores, (), explanations=found)


def test_the_page_shows_both_sides_on_one_line() -> None:
    said = Dialogue("mine", (Turn("user", "Hello! Is it far?"), Turn("assistant", "")), "bot")
    text = page([explanation(said, "toy")], scored([0.1, 0.2])[1])
    part = text[text.index('id="why"') :]
    assert 'href="#why"' in text
    for words in ("Why this score", "mine", "Held against", "lake-1", "the only one scored", "empty turn"):
        assert words in part
    assert "2 turns, 2 pieces alike" in part
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)
    first = next(row for row in rows if "Hello!" in row)
    assert first.count("greeting") == 2 and "Hello there!" in first and ">same<" in first
    assert part.count("<b>0.286</b>") == 3 and "overall" in part  # both parts: 2 of 7


def test_no_explanations_no_section_and_many_are_bounded() -> None:
    scores = scored([0.5, 0.6])[1]
    assert 'id="why"' not in page([], scores)
    long = Side(
        "long", tuple(ExplainedTurn("user", (Piece("x" * 5_000, "inform"),), n) for n in range(10_000))
    )
    many = [Explanation("long", f"toy-{n}", 0.5, {}, long) for n in range(9)]
    text = page(many, scores)
    assert "9,920 more lines are not shown" in text
    assert "4,400 more characters are not shown" in text
    assert "3 more sources with explanations are not shown" in text
    assert len(text) < 1_000_000


@pytest.mark.parametrize("start", range(0, 40, 5))
def test_hostile_text_in_every_field_stays_text(start: int) -> None:
    found = []
    for text in PAYLOADS[start : start + 5]:
        side = Side(text, (ExplainedTurn(text, (Piece(text, text), Piece(text, None)), 0),))
        found.append(Explanation(text, text, 0.5, {text: 0.5}, side, side, ((0, 0),), text, text))
    text = page(found, scored([0.5, 0.6])[1])
    check_outline(text)
    part = text[text.index('id="why"') : text.index('id="made"')]
    shown = [html.unescape(one) for one in re.findall(r"<bdi>(.*?)</bdi>", part, re.DOTALL)]
    for one in PAYLOADS[start : start + 5]:
        assert shown.count(visible(one)) == 14, one  # six names and notes, two sides of four


def test_text_on_every_tint_can_be_read() -> None:
    """The contrast of WCAG 2, level AA, worked out from the style sheet itself."""
    from importlib.resources import files

    style = (files("dialeval.reports") / "templates" / "style.css").read_text(encoding="utf-8")

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    inks = re.findall(r"--ink: (#\w{6}|#\w{3});", style)
    tints = re.findall(r"--k\d: (#\w{6});", style)
    assert len(tints) == 3 * section.TINTS and len(inks) == 3
    for scheme, ink in enumerate(inks):
        dark = light(ink if len(ink) == 7 else "#" + "".join(2 * digit for digit in ink[1:]))
        for tint in tints[section.TINTS * scheme : section.TINTS * (scheme + 1)]:
            high, low = sorted((dark, light(tint)), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 7, tint
