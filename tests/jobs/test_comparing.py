"""Two versions of a bot: what is better, found on written chats, from the command line and in Python."""

import json
import re
from pathlib import Path

import bot_versions
import pytest
from commands import here
from outlines import check_outline

import dialeval
from dialeval.cli import output
from dialeval.dialogues import Dialogue
from dialeval.errors import UsageError
from dialeval.jobs.comparing import compare
from dialeval.reports import write_comparison
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import Comparison, rereading
from dialeval.studies import compare as compare_scores

VERSIONS = {
    one.__name__: one
    for one in (
        bot_versions.forgetful,
        bot_versions.emptied,
        bot_versions.cut_off,
        bot_versions.concise,
        bot_versions.marketing,
    )
}
QUICK = {"resamples": 999}


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Dialogue], Scores]]:
    """Every version with its scores, made once."""
    made = {"old": list(bot_versions.chats(name="v1-"))}
    made |= {name: list(bot_versions.chats(change, "v2-")) for name, change in VERSIONS.items()}
    return {name: (chats, dialeval.score(chats, ["quality", "length"])) for name, chats in made.items()}


@pytest.fixture(scope="module")
def runs(scored: dict[str, tuple[list[Dialogue], Scores]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders of the old version and the forgetful one, and their dialogues beside them."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("old", "forgetful"):
        chats, scores = scored[name]
        (folder / name).mkdir()
        dialeval.write(chats, folder / f"{name}.jsonl")
        dialeval.write(chats, folder / name / "dialogues.jsonl")
        scores.write(folder / name / "scores.parquet")
        (folder / name / "run.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def forgotten(runs: Path) -> Comparison:
    return compare(runs / "old", runs / "forgetful", **QUICK)  # type: ignore[arg-type]


def test_a_version_that_forgets_is_worse_and_the_turns_that_show_it_come_first(forgotten: Comparison) -> None:
    columns = {one.short: one for one in forgotten.columns}
    quality, length = columns["quality"], columns["length/words"]
    assert (quality.short, quality.verdict, quality.paired) == ("quality", "worse", True)
    assert (quality.difference.high or 0) < 0 and 20 < (quality.dialogues_for_half or 0) < 200
    assert length.verdict == "less" and forgotten.worse == ("quality/quality",)
    assert forgotten.versions[1].partners == "40 by first user turn"
    texts = [one.reply.text for one in forgotten.turns]
    assert len(texts) == 10 and len(set(texts)) == 4, "every way of forgetting, then some of them again"
    assert all(int(one.dialogue_id[3:]) % 3 == 0 for one in forgotten.turns)
    first = forgotten.turns[0]
    assert [turn.role for turn in first.turns][-2:] == ["other", "reply"]
    assert first.reasons[0].endswith("worse than old in the same place")


@pytest.mark.parametrize(
    ("trap", "worse"),
    [
        ("emptied", True),
        ("cut_off", True),
        ("concise", False),
        ("marketing", True),
    ],
)
def test_the_traps_of_a_gate(
    scored: dict[str, tuple[list[Dialogue], Scores]], trap: str, worse: bool, tmp_path: Path
) -> None:
    """Emptied, cut off and marketing replies are drops; short correct answers are none."""
    for name in ("old", trap):
        scores = scored[name][1]
        ids = [f"d{row.dialogue_id[3:]}" for row in scores]
        renamed = [row._replace(dialogue_id=own, system=None) for row, own in zip(scores, ids, strict=True)]
        Scores.of(renamed, scores.signatures).write(tmp_path / f"{name}.parquet")
    code = 1 if worse else 0
    args = (
        "check",
        f"{trap}.parquet",
        "--against",
        "old.parquet",
        "--source",
        "quality",
        "--resamples",
        "999",
    )
    assert here(*args, cwd=tmp_path, code=code).stdout.startswith("DROP" if worse else "ok")


def test_the_page_is_one_file_with_markdown_drawn_and_nothing_that_loads(
    forgotten: Comparison, tmp_path: Path
) -> None:
    write_comparison(forgotten, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    check_outline(page)
    assert "default-src 'none'" in page
    assert "By quality, forgetful is worse than old." in page
    assert page.count('aria-labelledby="bad-') == 10 and "said in its place" in page
    assert re.search(r'class="name heat tn3"[^>]*><bdi>worse', page)
    write_comparison(forgotten, tmp_path / "table.md")
    assert "| **quality** higher" not in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| worse |" in (tmp_path / "table.md").read_text(encoding="utf-8")
    write_comparison(forgotten, tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text())["worse"] == ["quality/quality"]
    with pytest.raises(UsageError, match=r"\.html, \.md, \.json"):
        write_comparison(forgotten, tmp_path / "report.pdf")


def test_the_verb_on_files_and_as_json(runs: Path) -> None:
    quick = ("-m", "length", "-m", "repetition", "--resamples", "999")
    told = here("compare", "released=old.jsonl", "forgetful.jsonl", *quick, "-o", "x.html", cwd=runs)
    assert told.stdout.startswith("By repetition, forgetful is worse than released.\n")
    assert "# Turns to read" in told.stdout and "partners found: 40 by first user turn" in told.stderr
    assert (runs / "x.html").is_file()
    found = json.loads(here("compare", "old.jsonl", "forgetful.jsonl", *quick, "--json", cwd=runs).stdout)
    assert found["columns"][0]["verdict"] == "worse" and not found["passed"]
    assert "must end in" in here("compare", "a", "b", "-o", "x.pdf", cwd=runs, code=2).stderr


def test_the_time_left_is_known_where_files_can_be_counted(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(output, "is_watched", lambda: True)
    show = output.progress
    monkeypatch.setattr(
        output, "progress", lambda what, total=None: seen.append(total) or show(what, quiet=True)
    )
    quick = ("-m", "length", "--resamples", "100")
    here("compare", "old.jsonl", "forgetful.jsonl", *quick, cwd=runs)
    here("compare", "old", "forgetful", "--source", "length", "--resamples", "100", cwd=runs)
    assert seen == [80, None]


def test_one_file_is_cut_into_its_systems_and_tables_have_no_turns(tmp_path: Path) -> None:
    chats = [*bot_versions.chats(name="v1"), *bot_versions.chats(bot_versions.cut_off, "v2")]
    found = compare(chats, metrics=["length"], **QUICK)  # type: ignore[arg-type]
    assert [one.name for one in found.versions] == ["v1", "v2"] and found.columns[0].verdict == "less"
    assert found.columns[0].paired and found.summary.startswith("No score says whether v2")
    for name, one in zip(("v1", "v2"), (chats[:40], chats[40:]), strict=True):
        dialeval.score(one, "length").write(tmp_path / f"{name}.csv")
    tables = compare(tmp_path / "v1.csv", tmp_path / "v2.csv", **QUICK)  # type: ignore[arg-type]
    assert not tables.columns[0].paired and tables.turns == ()
    assert tables.versions[1].partners.startswith("none")
    with pytest.raises(UsageError, match="two systems"):
        compare(chats[:40], metrics=["length"])


def test_faults_of_a_metric_are_columns_and_chips() -> None:
    sides = []
    for version, chance in (("v1", 5), ("v2", 2)):
        chats = list(bot_versions.chats(name=version))
        rows = [
            Score(one.id, turn, version, *column, value)
            for number, one in enumerate(chats)
            for turn in (1, 3, 5)
            for column, value in (
                (("quality", "quality"), -float(number % chance == 0)),
                (("rules", "stuck-loop"), float(number % chance == 0)),
            )
        ]
        made = {"rules": Signature.parse("rules.v1|better:lower")}
        sides.append((chats, Scores.of(rows, made)))
    found = compare_scores({"v1": sides[0][1], "v2": sides[1][1]}, **QUICK)  # type: ignore[arg-type]
    assert {one.short: one.verdict for one in found.columns} == {
        "quality": "worse",
        "rules/stuck-loop": "worse",
    }
    said = [
        rereading.ScoredVersion(name, scores, chats, {})
        for name, (chats, scores) in zip("ab", sides, strict=True)
    ]
    scale, turns = rereading.turns_to_read(said)
    assert scale is not None and scale.source == "quality"
    assert {one.faults for one in turns} == {("rules/stuck-loop",)}


def test_one_metric_needs_no_list_and_two_versions_of_one_name_are_refused(runs: Path) -> None:
    chats = [*bot_versions.chats(name="v1")][:6]
    assert compare(chats, chats, metrics="length", resamples=100).columns[0].source == "length"
    file = str(runs / "old.jsonl")
    with pytest.raises(UsageError, match=r"two versions are called .*names="):
        compare(file, file, metrics="length", resamples=100)
