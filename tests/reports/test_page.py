"""The HTML report: complete, self-contained, the same every time, small, honest about what is undefined."""

import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from outlines import Outline, check_outline
from payloads import PAYLOADS
from report_cases import QUICK, hostile, opposite, ordinary, rendered, talk, talks

from dialeval.dialogues import Dialogue, Turn
from dialeval.errors import UsageError
from dialeval.jobs.reporting import write_report
from dialeval.reports import to_html
from dialeval.reports.figures import thin
from dialeval.reports.source_tables import CEILING, correlation_table
from dialeval.reports.system_tables import ranking_table
from dialeval.reports.table import Palette
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import Study, study
from dialeval.studies.against_gold import letters
from dialeval.studies.findings import Difference
from dialeval.studies.inspection import choose
from dialeval.studies.turn_scores import TurnScale, colouring_scale, turn_values


@pytest.fixture(scope="module")
def scores() -> Scores:
    return ordinary(40)


@pytest.fixture(scope="module")
def found(scores: Scores) -> Study:
    return study(scores, combine=("both=zmean:metric-0/score+metric-1",), by="system", **QUICK)


@pytest.fixture(scope="module")
def page(found: Study, scores: Scores) -> str:
    return rendered(found, scores, talks(40), title="My study")


def test_every_section_is_there(page: str) -> None:
    for section in (
        "summary",
        "systems",
        "correlations",
        "figures",
        "between",
        "subsets",
        "agreement",
        "dialogues",
    ):
        assert f'id="{section}"' in page, section
        assert f'href="#{section}"' in page, section
    assert page.count("<svg") > 20
    assert "human ceiling" in page
    assert "metric-0.v1" in page
    assert "* p &lt; .05" in page
    assert "Williams" in page
    assert "combination.v1" in page


def test_numbers_carry_n_and_unscored(page: str, found: Study) -> None:
    row = next(row for row in found.correlations if row.n_unscored)
    assert f"n = {row.n:,}, unscored {row.n_unscored:,}" in page
    assert f"n {found.systems[0].n:,}, unscored {found.systems[0].n_unscored:,}" in page
    assert ">empty<" in page  # the note of the unscored rows


def test_figures_agree_with_the_study(page: str, found: Study) -> None:
    best = found.correlations[0]
    assert f"{best.spearman.value:.3f}" in page
    assert best.label in page
    ceiling = found.ceiling["spearman"]
    assert f"{ceiling.value:.2f} [{ceiling.low:.2f}, {ceiling.high:.2f}]" in page


def test_page_is_well_formed_and_points_nowhere(page: str) -> None:
    check_outline(page)
    assert "http:" not in page and "https:" not in page
    assert "default-src 'none'" in page
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page)


def test_same_input_same_bytes(found: Study, scores: Scores, page: str, tmp_path: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": None, "font.size": 30, "axes.facecolor": "red"}):
        write_report(found, scores, talks(40), tmp_path / "a.html", title="My study")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page


def test_loaded_study_gives_the_same_page(found: Study, scores: Scores, page: str, tmp_path: Path) -> None:
    found.save(tmp_path / "study.json")
    again = rendered(Study.load(tmp_path / "study.json"), scores, talks(40), title="My study")
    assert again == page


def test_illustrative_ratings_are_marked_everywhere(found: Study, scores: Scores, page: str) -> None:
    marked = rendered(found, scores, talks(40), illustrative=True)
    assert "They measure nothing" in marked
    assert marked.count("illustrative ratings") > 15
    assert "illustrative" not in page


@pytest.mark.parametrize("level", ["turn", "dialogue", "system"])
def test_levels(level: str) -> None:
    scores = ordinary(30, systems=4)
    gold = "metric-0" if level == "turn" else "human"
    found = study(scores, gold=gold, level=level, **QUICK)
    page = rendered(found, scores, talks(30, 4))
    assert Outline(page).open == []
    assert "Dialogues to read" in page
    assert 'class="strip"' in page


def test_labels_show_auc_and_distributions() -> None:
    scores = ordinary(60, raters=1)
    page = rendered(study(scores, **QUICK), scores, ())
    assert 'id="labels"' in page
    assert "0.5 is guessing" in page
    assert "Classes of human / overall" in page
    assert "Where to draw the line: human / overall, ≥ 3" in page
    assert len(re.findall(r"dashed: threshold \S+, balanced accuracy 0\.\d\d on other dialogues", page)) == 4
    assert "The text of these dialogues was not given." in page


def test_without_gold() -> None:
    scores = ordinary(20, raters=0)
    page = rendered(study(scores, **QUICK), scores, talks(20))
    assert "without ratings, no source can be compared" in page
    assert 'id="correlations"' not in page
    assert "among the worst of its system by metric-0" in page


def test_the_first_screen_says_how_good_who_is_better_and_where_it_fails() -> None:
    """Without ratings systems are judged by `quality`; its percentile is told in words, faults counted."""
    columns: dict[tuple[str, str], tuple[int | None, float, float]] = {  # turn, either value
        ("length", "words"): (None, 9, 9),
        ("quality", "quality"): (1, 0, 1),
        ("quality", "percentile"): (None, 50, 70),
        ("rules", "loop"): (1, 1, 0),
    }
    rows = [
        Score(f"d{n:06}", turn, f"bot-{n % 2}", *column, either[n % 2] + n / 1000 * (column[0] == "quality"))
        for n in range(40)
        for column, (turn, *either) in columns.items()
    ]
    signatures = {"length": "length.v1|better:neither", "rules": "rules.v1|better:lower"}
    scores = Scores.of(rows, {name: Signature.parse(text) for name, text in signatures.items()})
    page = rendered(study(scores, **QUICK), scores, talks(40))
    first = re.sub(r"<[^>]+>", " ", page.partition('id="summary"')[2].partition('id="triage"')[0])
    first = " ".join(first.split())
    assert "Systems by quality" in first
    assert "by quality, better than 70 % of rated dialogues of this kind" in first
    assert re.search(r"bot-1 is better than bot-0 1\.0", first), "the better one first, and no minus"
    assert re.search(r"loop 0 none of 20 100\.0", first)


def test_undefined_values_say_why() -> None:
    rows = [Score(f"d{n}", None, "bot", "flat", "score", 1.0) for n in range(5)]
    rows += [Score(f"d{n}", None, "bot", "human:r", "overall", float(n)) for n in range(5)]
    rows += [Score(f"d{n}", None, "bot", "rare", "score", float(n)) for n in range(2)]
    scores = Scores.of(rows)
    found = study(scores, **QUICK)
    page = rendered(found, scores, ())
    assert re.search(r'<small class="reason">constant', page)
    assert {row.spearman.reason for row in found.correlations} >= {"constant"}
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_dialogues(n: int) -> None:
    scores = ordinary(n, systems=1)
    page = rendered(study(scores, **QUICK), scores, talks(n, 1))
    assert Outline(page).open == []
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page)


def test_nothing_at_all(tmp_path: Path) -> None:
    scores = Scores.of([])
    found = study(scores, **QUICK)
    for suffix in (".html", ".md", ".tex"):
        write_report(found, scores, [], tmp_path / f"report{suffix}")
        assert (tmp_path / f"report{suffix}").stat().st_size > 100
    assert Outline((tmp_path / "report.html").read_text()).open == []


def test_a_study_alone_is_drawn(found: Study) -> None:
    page = to_html(found)
    assert page.count("<svg") > 20
    assert f"{found.correlations[0].spearman.value:.3f}" in page


def test_one_source_and_one_rater() -> None:
    rows = [Score(f"d{n:06}", None, "bot-0", "m", "score", float(n % 7)) for n in range(12)]
    rows += [Score(f"d{n:06}", None, "bot-0", "human:r", "overall", float(n % 5)) for n in range(12)]
    scores = Scores.of(rows)
    page = rendered(study(scores, **QUICK), scores, talks(12, 1))
    assert Outline(page).open == []
    assert "<span>source compared</span>" in page
    assert "one column of ratings" in page
    assert "human ceiling" not in page
    assert "significantly better" not in page


def test_only_what_no_test_tells_apart_is_called_as_good() -> None:
    """A source may share a letter with the best one and another with one that the best beats."""
    rated = [Score(f"d{n}", None, "bot", "human:r", "overall", float(n)) for n in range(30)]
    made = {"best": lambda n: n, "near": lambda n: n ^ 1, "far": lambda n: (n * 7) % 30}
    rows = [
        Score(f"d{n}", None, "bot", name, "score", float(value(n)))
        for name, value in made.items()
        for n in range(30)
    ]
    scores = Scores.of([*rated, *rows])
    found = study(scores, **QUICK)
    p_values = {frozenset(("best", "near")): 0.3, frozenset(("best", "far")): 0.04}
    tests: list[Difference] = [
        replace(row, permutation_holm=p_values.get(frozenset((row.first, row.second)), 0.2))
        for row in found.differences
    ]
    found = replace(found, letters=letters(found.correlations, tests, found.settings))
    assert {label: found.group(label) for label in made} == {"best": "a", "near": "ab", "far": "b"}
    text = re.sub(r"<[^>]+>", "", rendered(found, scores, talks(30, 1)))
    assert "not significantly better than near." in text


def test_another_ending_is_refused(found: Study, scores: Scores, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.md, \.tex"):
        write_report(found, scores, [], tmp_path / "report.doc")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("ending", "start"), [(".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_the_figure_of_a_paper(
    ending: str, start: bytes, found: Study, scores: Scores, tmp_path: Path
) -> None:
    write_report(found, scores, [], tmp_path / f"figure{ending}")
    assert (tmp_path / f"figure{ending}").read_bytes().startswith(start)


def test_long_turns_and_dialogues_are_cut_and_say_so() -> None:
    scores = Scores.of(
        [
            Score("d", turn, "bot", source, "quality", float(turn % 3))
            for turn in range(1, 500, 2)
            for source in ("human:r1", "m")
        ]
    )
    turns = tuple(Turn("user" if n % 2 == 0 else "assistant", "word " * 2_000) for n in range(500))
    page = rendered(study(scores, **QUICK), scores, [Dialogue("d", turns, "bot")])
    assert "more turns of this dialogue are not shown" in page
    assert "6,000 more characters are not shown" in page
    assert len(page) < 2_000_000


def test_turn_in_question_is_shown_however_late() -> None:
    rows = [
        Score("d", turn, "bot", source, "quality", 0.0 if turn == 401 else 2.0 + turn % 5)
        for turn in range(1, 500, 2)
        for source in ("human:r1", "m")
    ]
    scores = Scores.of(rows)
    dialogue = talk("d", "bot", 500)
    page = rendered(study(scores, **QUICK), scores, [dialogue])
    assert "the turn in question" in page
    assert "turn 401" in page


def test_strip_falls_back_to_a_metric_and_names_it() -> None:
    scores = ordinary(10)
    page = rendered(study(scores, **QUICK), scores, talks(10))
    assert re.search(r"Turns are coloured by <strong><bdi>metric-0 / turn score</bdi>", page)


def test_lower_is_better_turns_the_colours() -> None:
    lower = TurnScale("m", "d", 0, 1, lower_is_better=True)
    assert Palette(TurnScale("m", "d", 0, 1)).tone(0.95) == -Palette(lower).tone(0.95) == 4
    assert Palette(TurnScale("m", "d", 1, 1)).tone(1) == 0


@pytest.mark.parametrize(("dimension", "lower"), [("self", True), ("user", False), ("length", False)])
def test_strips_are_coloured_by_the_direction_of_their_dimension(dimension: str, lower: bool) -> None:
    scores = opposite(20)
    found = study(scores, **QUICK)
    scale = colouring_scale(found, scores.where(dimension=dimension))
    assert scale is not None
    assert (scale.label, scale.lower_is_better) == (f"two / {dimension}", lower)
    values, palette = turn_values(scores, scale), Palette(scale)
    good, bad = (
        [
            palette.tone(turn.value or 0)
            for (_, system), turns in values.items()
            if system == name
            for turn in turns.values()
        ]
        for name in ("bot-1", "bot-0")
    )
    assert sum(good) / len(good) > 1 > -1 > sum(bad) / len(bad)
    page = rendered(found, scores.where(dimension=dimension), talks(20))
    assert (", lower is better</span>" in page) == lower


def test_tables_turn_only_the_dimension_that_should_be_low() -> None:
    found = study(opposite(40), **QUICK)
    table = correlation_table(found)
    assert table is not None
    assert {row[1].text: row[1].small for row in table.rows} == {
        "two/self": "lower is better", "two/user": "", "two/length": "",
    }  # fmt: skip
    for dimension, note in (("self", ("Lower is better.",)), ("user", ()), ("length", ())):
        ranking = ranking_table(found, ("two", dimension))
        assert [row[0].text for row in ranking.rows] == ["bot-1", "bot-0"]  # bot-1 is the good one
        assert ranking.notes == note


def test_the_ceiling_stands_where_the_turned_correlation_puts_it() -> None:
    scores = opposite(40)
    rough = [
        row._replace(source="human:s", value=(row.value or 0) + (1.5 if number % 3 else -1.5))
        for number, row in enumerate(scores.where(source="human:r"))
    ]
    found = study(Scores.concat([scores, Scores.of(rough)]), sources=("two/self", "two/user"), **QUICK)
    table = correlation_table(found)
    assert table is not None
    assert [row[1].text for row in table.rows][-1] == CEILING
    assert {row.label: row.spearman.value < 0 for row in found.correlations} == {
        "two/self": True, "two/user": False,
    }  # fmt: skip


@pytest.mark.parametrize("first", ["self", "user"])
def test_the_worst_dialogues_are_those_on_the_bad_side(first: str) -> None:
    """Without ratings the first column with a direction says what to look at, `length` does not."""
    scores = opposite(20, rated=False)
    ordered = Scores.concat([scores.where(dimension=name) for name in ("length", first)])
    found = study(ordered, **QUICK)
    picks = choose(found)
    assert {reason for pick in picks for reason in pick.reasons} == {
        f"among the worst of its system by two/{first}"
    }
    means: dict[str, float] = {}
    for row in ordered.where(dimension=first):
        means[row.dialogue_id] = means.get(row.dialogue_id, 0.0) + (row.value or 0) / 3
    for system in ("bot-0", "bot-1"):
        own = {row.dialogue_id for row in ordered if row.system == system}
        by_worth = sorted(own, key=lambda name: means[name] * (-1 if first == "self" else 1))
        assert [pick.dialogue_id for pick in picks if pick.system == system] == by_worth[:2]


def test_thinning_keeps_the_range_and_is_repeatable() -> None:
    import numpy as np

    x = np.random.default_rng(0).normal(size=5_000)
    kept, _ = thin(x, -x, 400)
    assert kept.size == 400
    assert kept.min() == x.min() and kept.max() == x.max()
    assert (thin(x, -x, 400)[0] == kept).all()


def test_size_for_a_thousand_dialogues() -> None:
    scores = ordinary(1_000, sources=8, systems=5)
    page = rendered(study(scores, **QUICK), scores, talks(1_000, 5))
    assert len(page.encode()) <= 2_000_000
    assert "points shown, evenly spaced" in page


@pytest.mark.soak
def test_size_and_memory_for_a_hundred_thousand_dialogues() -> None:
    scores = ordinary(100_000, sources=8, systems=5)
    found = study(ordinary(1_000, sources=8, systems=5), **QUICK)  # the report, not the study, is on trial
    tracemalloc.start()
    page = rendered(found, scores, talks(100_000, 5))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "300,000 replies scored, 0 unscored" in page
    assert len(page.encode()) < 10_000_000
    assert peak < 400_000_000


def test_dialogues_are_read_once_and_not_kept(found: Study, scores: Scores) -> None:
    alive, most = 0, 0

    class Counted(Dialogue, frozen=True):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def stream() -> Iterator[Dialogue]:
        nonlocal alive, most
        for one in talks(400):
            alive += 1
            most = max(most, alive)
            yield Counted(one.id, one.turns, one.system)

    rendered(found, scores, stream())
    assert most < 200  # two chunks, and what is shown


@pytest.mark.parametrize("start", range(0, 40, 8))
def test_hostile_text_in_every_field_is_escaped(start: int) -> None:
    found, scores, dialogues = hostile(PAYLOADS[start : start + 8])
    page = rendered(found, scores, dialogues, title=PAYLOADS[start])
    check_outline(page)


def test_names_that_look_like_numbers_stay_as_given() -> None:
    rows = [
        Score(f"d{n}", None, f"bot -{n % 2}", source, "x -3", float((n * 7) % 5))
        for n in range(10)
        for source in ("human:-1", "metric -2")
    ]
    scores = Scores.of(rows)
    page = rendered(study(scores, **QUICK), scores, [talk(f"d{n}", f"bot -{n % 2}") for n in range(10)])
    for name in ("metric -2", "bot -0", "bot -1", "human / x -3", "human:-1"):
        assert f"<bdi>{name}</bdi>" in page
    assert not re.search("(metric|bot|x|human:).?\N{MINUS SIGN}", page)


def test_lone_surrogate_in_a_title() -> None:
    page = to_html(Study(), title="a\ud800b")
    assert "a\ufffdb" in page
    page.encode()
