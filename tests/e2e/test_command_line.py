"""The command line as a user meets it: real processes, real files, exit codes and one-line errors.

What needs no process of its own (`here`) is called in this one, so that libraries are imported once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from commands import here, refused, run

import dialeval
from dialeval.cli.app import app
from dialeval.dialogues.datasets import NAMES
from dialeval.jobs import demo
from dialeval.jobs.runs import Run

EXAMPLES = Path(dialeval.__file__).parent / "dialogues" / "examples"
CHATS, RATINGS = EXAMPLES / "dialogues.jsonl", EXAMPLES / "ratings.csv"
QUICK = ("--resamples", "200")
ONE_AFTER_THE_OTHER = """
import json, sys
from dialeval.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["dialeval", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""


def table(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    header, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [dict(zip(header, row, strict=False)) for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    here("score", CHATS, "-m", "rep=repetition:n=4", "-m", "chrf", "-o", "run", cwd=path)
    return path


@pytest.mark.soak
def test_demo_needs_no_other_file_and_is_the_same_every_time(tmp_path: Path) -> None:
    """The whole demo in two processes; docs/index.md runs it once in the quick suite."""
    done = run("demo", cwd=tmp_path)
    assert "demo/report.html" in done.stderr
    assert "illustrative" in done.stderr
    folder = tmp_path / "demo"
    assert (folder / "report.html").stat().st_size > 50_000
    names = ("scores.parquet", "study.json", "report.html", "dialogues.jsonl")
    first = {name: (folder / name).read_bytes() for name in names}
    run("demo", cwd=tmp_path)  # a second time is fine, and another process gives the same
    assert [name for name in names if (folder / name).read_bytes() != first[name]] == []


def test_a_demo_is_the_same_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = demo.example_dialogues()[::5]
    monkeypatch.setattr(demo, "example_dialogues", lambda: few)
    monkeypatch.setattr(demo, "METRICS", ("quality", "repetition", "chrf"))
    done = here("demo", cwd=tmp_path)
    assert "demo/report.html" in done.stderr
    assert "illustrative" in done.stderr
    names = ("scores.parquet", "study.json", "report.html", "dialogues.jsonl")
    first = {name: (tmp_path / "demo" / name).read_bytes() for name in names}
    assert len(first["report.html"]) > 50_000
    here("demo", cwd=tmp_path)  # a second time is fine
    assert [name for name in names if (tmp_path / "demo" / name).read_bytes() != first[name]] == []


def test_score_writes_a_run_folder(folder: Path) -> None:
    found = Run(folder / "run")
    assert len(list(found.dialogues())) == 60
    assert found.own_scores().sources == ["rep", "chrf"]
    assert str(found.own_scores().signatures["rep"]).startswith("repetition.v1|n:4|")
    assert found.info()["dialogues"] == 60
    done = here("score", CHATS, "-o", "run", cwd=folder, code=2)
    assert "--overwrite" in done.stderr


def test_score_to_tables_and_pipes(folder: Path) -> None:
    for ending in ("parquet", "csv", "jsonl"):
        here("score", CHATS, "-m", "length", "-o", f"scores.{ending}", cwd=folder)
        assert len(dialeval.Scores.read(folder / f"scores.{ending}")) == 324
    chats = (
        '{"id":"a","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello you"}]}\n'
    )
    done = run("score", "-", "-m", "length", "-o", "-", cwd=folder, stdin=chats)
    row = json.loads(done.stdout)
    assert (row["dialogue_id"], row["turn"], row["value"]) == ("a", 1, 2.0)
    done = run("score", "-", "-m", "length", "--json", cwd=folder, stdin=chats)
    assert json.loads(done.stdout)["scores"][0]["mean"] == 2.0


def test_another_process_with_another_hash_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """R2: same signature, same number."""
    few = CHATS.read_text(encoding="utf-8").splitlines(keepends=True)[:3]
    (tmp_path / "few.jsonl").write_text("".join(few), encoding="utf-8")
    metrics = [part for name in ("bleu", "chrf", "repetition", "length", "turns") for part in ("-m", name)]
    for seed in ("1", "2"):
        threads = {"OPENBLAS_NUM_THREADS": seed, "DIALEVAL_THREADS": seed}
        environment = {**os.environ, "PYTHONHASHSEED": seed, **threads}
        commands = (
            ["score", str(CHATS), *metrics, "-o", f"run{seed}"],
            ["score", "few.jsonl", "-m", "turn-quality", "-o", f"run{seed}.parquet"],
            ["study", f"run{seed}", str(RATINGS), *QUICK],
        )
        code = [sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(commands)]
        subprocess.run(code, cwd=tmp_path, env=environment, capture_output=True, check=True)
    for name in ("scores.parquet", "study.json", "joined.parquet", "dialogues.jsonl"):
        assert (tmp_path / "run1" / name).read_bytes() == (tmp_path / "run2" / name).read_bytes(), name
    one, other = (dialeval.Scores.read(tmp_path / f"run{seed}.parquet") for seed in ("1", "2"))
    assert [row._replace(value=None) for row in one] == [row._replace(value=None) for row in other]
    assert [row.value for row in one] == pytest.approx([row.value for row in other], abs=1e-6)


def test_study_joins_ratings_and_a_judge(folder: Path) -> None:
    ratings = dialeval.Scores.read(RATINGS).where(level="dialogue", source="human:r1")
    lines = ["conversation,score", *(f"{row.dialogue_id},{row.value}" for row in ratings)]
    (folder / "judge.csv").write_text("\n".join(lines))
    judge = "judge.csv:id=conversation,value=score,source=gpt-4"
    done = here("study", "run", RATINGS, "--map", judge, "--level", "dialogue", *QUICK, cwd=folder)
    best = table(done)[0]
    assert best["source"] == "gpt-4"
    assert float(best["Pearson"].split()[0]) > 0.9
    assert (folder / "run" / "study.json").is_file()
    done = here("study", "run", RATINGS, "--level", "turn", "--by", "system", "--json", *QUICK, cwd=folder)
    study = json.loads(done.stdout)
    assert study["gold"]["dimension"] == "quality"
    assert [subset["name"] for subset in study["subsets"]] == [
        "forgetful-bot",
        "good-bot",
        "repetitive-bot",
    ]
    done = here(
        "study", "run", RATINGS, "--where", "chrf<20", "--combine", "both=zmean:rep+chrf", *QUICK, cwd=folder
    )
    assert "both" in done.stdout


def test_report_in_three_kinds(folder: Path) -> None:
    here("study", "run", RATINGS, *QUICK, cwd=folder)
    here("report", "run", cwd=folder)
    here("report", "run", "-o", "r.html", "-o", "t.md", "-o", "t.tex", "--title", "Mine", cwd=folder)
    assert (folder / "run" / "report.html").is_file()
    assert "Mine" in (folder / "r.html").read_text()
    assert "|" in (folder / "t.md").read_text()
    assert "\\toprule" in (folder / "t.tex").read_text()


def test_check_finds_a_drop_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    scores = dialeval.Scores.read(folder / "run" / "scores.parquet")
    worse = dialeval.Scores.of(
        (row._replace(value=row.value and row.value * 0.5) for row in scores), scores.signatures
    )
    worse.write(tmp_path / "worse.parquet")
    same = here("check", folder / "run", "--against", folder / "run", cwd=tmp_path)
    assert "paired" in same.stdout
    assert "DROP" not in same.stdout
    drop = here("check", "worse.parquet", "--against", folder / "run", cwd=tmp_path, code=1)
    assert "DROP chrf/chrf" in drop.stdout
    assert "ok   rep/repetition" in drop.stdout  # lower is better there
    here("check", folder / "run", "--against", "worse.parquet", "--source", "chrf", cwd=tmp_path)
    with pytest.raises(AssertionError, match="DROP chrf/chrf"):
        dialeval.assert_no_drop(tmp_path / "worse.parquet", against=folder / "run", source="chrf")
    dialeval.assert_no_drop(folder / "run", against=folder / "run")


def test_convert_there_and_back(tmp_path: Path) -> None:
    for ending in ("parquet", "csv", "jsonl"):
        here("convert", CHATS, "-o", f"a.{ending}", cwd=tmp_path)
        here("convert", f"a.{ending}", "-o", f"b-{ending}.jsonl", cwd=tmp_path)
        assert list(dialeval.read(tmp_path / f"b-{ending}.jsonl")) == list(dialeval.read(CHATS))


def test_list(tmp_path: Path) -> None:
    assert {row["name"] for row in table(here("list", cwd=tmp_path))} >= {"bleu.v1", "repetition.v1"}
    assert len(json.loads(here("list", "sets", "--json", cwd=tmp_path).stdout)) == len(NAMES)
    formats = {row["name"] for row in table(here("list", "formats", cwd=tmp_path))}
    assert formats >= {"tau", "otel", "langfuse", "responses"}


def test_a_set_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "nowhere"))
    refused("benchmark", "fed", cwd=tmp_path, code=1, said="DIALEVAL_DATA")


BAD_FILES = {
    "truncated.jsonl": (b'{"id":"a","messages":[{"role":"us', "truncated.jsonl:1"),
    "column.csv": (b"a,b\n1,2\n", "column.csv:1"),
    "latin.jsonl": (b'{"id":"a","messages":[{"role":"user","content":"caf\xe9"}]}\n', "latin.jsonl:1"),
    "latin.csv": (b"dialogue_id,speaker,text\na,user,caf\xe9\n", "latin.csv:2"),
    "no.parquet": (b"PAR1 but not really", "no.parquet"),
    "no.jsonl.gz": (b"\x1f\x8b\x08\x00garbage", "no.jsonl.gz"),
}


@pytest.mark.parametrize("name", [*BAD_FILES, "missing.jsonl", "folder"])
def test_malformed_input_is_one_line_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    if name in BAD_FILES:
        (tmp_path / name).write_bytes(BAD_FILES[name][0])
    if name == "folder":
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.iterdir())
    for out in ("out", "out.parquet", "out.jsonl"):
        done = here("score", name, "-m", "length", "-o", out, cwd=tmp_path, code=1)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert BAD_FILES.get(name, (b"", name))[1] in done.stderr
        assert done.stdout == ""
    here("convert", name, "-o", "out.parquet", cwd=tmp_path, code=1)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("score", "x.jsonl", "-m", "nonsense"), "no metric called 'nonsense'"),
        (("score", "x.jsonl", "-m", "length:n=3"), "length has no field 'n'"),
        (("score", "x.jsonl", "-m", "repetition:n=many"), "expected a whole number"),
        (("score", "x.jsonl", "--format", "word"), "no format 'word'"),
        (("benchmark", "nonsense"), "unknown public set 'nonsense'"),
        (("benchmark", "sgd"), "nobody rated"),
        (("study", "r.csv", "--map", "x"), "--map 'x'"),
        (("study", "r.csv", "--level", "galaxy"), "no level 'galaxy'"),
        (("list", "nonsense"), "expected metrics, sets, formats"),
    ],
)
def test_bad_usage_is_two(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "x.jsonl").write_text('{"id":"a","messages":[]}\n')
    (tmp_path / "r.csv").write_bytes(RATINGS.read_bytes())
    assert says in here(*arguments, cwd=tmp_path, code=2).stderr


def test_a_process_ends_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(BAD_FILES["truncated.jsonl"][0])
    done = run("score", "x.jsonl", "-m", "length", cwd=tmp_path, code=1)
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    assert "no metric called" in run("score", "x.jsonl", "-m", "nonsense", cwd=tmp_path, code=2).stderr
    assert "Usage" in run("--help", cwd=tmp_path).stdout


def test_help_shows_an_example_for_every_verb(tmp_path: Path) -> None:
    overview, commands = here("--help", cwd=tmp_path).stdout, typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) > 20
    for verb in set(commands) - {"models"}:
        assert verb in overview
        assert "Example: dialeval" in " ".join(here(verb, "--help", cwd=tmp_path).stdout.split())
