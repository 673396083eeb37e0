"""No verb writes over what it reads, or over anything of another kind than it writes."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import DIALEVAL, here

from dialeval.cli.app import app
from dialeval.cli.places import WRITES, check_places, kind_of
from dialeval.dialogues import formats
from dialeval.errors import UsageError
from dialeval.jobs.demo import example_dialogues, example_ratings
from dialeval.jobs.runs import Run
from dialeval.scores import Scores


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("places")
    chats = example_dialogues()[:20]
    for ending in ("jsonl", "csv", "parquet"):
        formats.write(chats, place / f"chats.{ending}")
    formats.write(example_dialogues()[20:30], place / "other.jsonl")
    example_ratings().write(place / "ratings.csv")
    example_ratings().write(place / "ratings.jsonl")
    here("score", "chats.jsonl", "-m", "length", "-m", "turns", "-o", "run", cwd=place)
    here("index", "chats.jsonl", "--plain", "-o", "index", cwd=place)
    here("batch", "chats.jsonl", "-m", "length", "-o", "batch", "--workers", 1, cwd=place)
    project = ("--scheme", "turn-quality", "-o", "project", "--raters", "ann", "--links")
    here("annotate", "chats.jsonl", *project, cwd=place)
    (place / "scenarios.toml").write_text('[scenario.lamp]\ngoal = "cancel an order"\ndone = ["cancelled"]\n')
    (place / "notes.txt").write_text("mine\n")
    (place / "settings.json").write_text('{"mine": 1}\n')
    (place / "folder").mkdir()
    (place / "folder" / "notes.txt").write_text("mine\n")
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "here"))


def contents(place: Path) -> dict[str, bytes]:
    files = (path for path in place.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def verbs(group: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in (group or typer.main.get_command(app)).commands.items():
        found |= verbs(command) if hasattr(command, "commands") else {name: command}
    return found


def test_every_option_that_writes_is_known() -> None:
    for name, verb in verbs().items():
        options = {one.name for one in verb.params if "-o" in one.opts or "--export" in one.opts}
        told = {one.name for one in verb.params if (getattr(one, "help", "") or "").startswith("Write")}
        assert options | told == set(WRITES.get(name, {})), name


COMMANDS: dict[str, tuple[object, ...]] = {
    "score": ("chats.jsonl", "-m", "length", "--overwrite"),
    "demo": (),
    "benchmark": ("fed", "-m", "length", "--overwrite"),
    "contrast": ("chats.jsonl", "-m", "length", "--systems", "chats.jsonl", "--overwrite"),
    "study": ("run", "ratings.csv", "--map", "ratings.jsonl:id=dialogue_id,value=value", "--resamples", 100),
    "report": ("run",),
    "compare": ("chats.jsonl", "chats.csv", "-m", "length"),
    "batch": ("chats.jsonl", "-m", "length"),
    "convert": ("chats.jsonl",),
    "acts": ("chats.jsonl",),
    "index": ("chats.jsonl", "--plain", "--overwrite"),
    "coverage": ("chats.jsonl", "--corpus", "index"),
    "train": ("turn-quality", "chats.jsonl"),
    "blend": ("run",),
    "export": ("default",),
    "tune": ("repetition", "chats.jsonl", "ratings.csv", "--try", "n=2,3"),
    "simulate": ("--system", "retrieval:corpus=chats.csv", "--scenarios", "scenarios.toml"),
    "respond": ("chats.jsonl", "--system", "retrieval:corpus=chats.csv", "--overwrite"),
    "annotate": ("project",),
    "chat": ("--system", "retrieval:corpus=chats.csv"),
    "trust": ("run", "ratings.csv"),
    "reproduce": ("voted-appropriateness",),
    "plan": ("run", "--sd", "1", "--label", "1", "--raters", "ann"),
}
OPTIONS = {
    "ratings": ("-o", "new.jsonl", "--ratings"),
    "export": ("--export",),
    "intervals": ("--intervals",),
}
TARGETS = (
    *(
        "chats.jsonl",
        "chats.csv",
        "chats.parquet",
        "ratings.csv",
        "ratings.jsonl",
        "notes.txt",
        "settings.json",
    ),
    *(
        "folder",
        "run",
        "run/scores.parquet",
        "run/dialogues.jsonl",
        "run/run.json",
        "index",
        "index/config.json",
    ),
    *("batch", "batch/run.json", "batch/scores/part-00000.parquet", "project", "project/study.db"),
)
SAME = {  # of the kind that is written, and not read
    *(("convert", name) for name in ("chats.csv", "chats.parquet")),
    *(("simulate", name) for name in ("chats.jsonl", "chats.parquet")),
    *(("acts", name) for name in ("chats.csv", "chats.parquet")),
    *(("score", "run"), ("benchmark", "run"), ("contrast", "run"), ("index", "index"), ("batch", "batch")),
    *(("annotate", "project"), ("respond", "chats.parquet")),
    *((verb, f"ratings.{ending}") for verb in ("annotate", "convert") for ending in ("csv", "jsonl")),
}


@pytest.mark.parametrize(
    ("verb", "option"), [(verb, option) for verb, options in WRITES.items() for option in options]
)
def test_what_is_there_stays(place: Path, verb: str, option: str) -> None:
    before = contents(place)
    for target in TARGETS:
        if (verb, target) not in SAME or (target.startswith("ratings.") and option not in OPTIONS):
            words = ("models", "export") if verb == "export" else (verb,)
            asked = (*words, *COMMANDS[verb], *OPTIONS.get(option, ("-o",)), target)
            assert target in here(*asked, cwd=place, code=2).stderr
    after = contents(place)
    assert before == {name: after.get(name) for name in before}


def test_what_was_written_is_written_again(place: Path) -> None:
    for _ in range(2):
        for name in ("scores.jsonl", "scores.csv", "scores.parquet"):
            here("score", "chats.jsonl", "-m", "length", "-o", name, cwd=place)
        here("score", "chats.jsonl", "-m", "length", "-o", "run", "--overwrite", cwd=place)
        study = ("study", "run", "ratings.csv", "--resamples", 100)
        here(*study, "-o", "study.json", cwd=place)
        here(*study, "-o", "run/study.json", cwd=place)
        here(
            "report",
            "run",
            "-o",
            "r.html",
            "-o",
            "r.md",
            "-o",
            "run/r.tex",
            "-o",
            "run/report.html",
            cwd=place,
        )
        here("acts", "chats.jsonl", "-o", "acts.json", cwd=place)
        here("acts", "chats.jsonl", "-o", "acts.jsonl", cwd=place)
        here("convert", "chats.jsonl", "-o", "more.csv", cwd=place)
        here(
            "coverage",
            "other.jsonl",
            "--corpus",
            "index",
            "-o",
            "c.svg",
            "-o",
            "c.html",
            "-o",
            "c.json",
            cwd=place,
        )
        exports = (
            "scores.csv",
            "label-studio.json",
            "label-studio.xml",
            "potato.jsonl",
            "potato-config.json",
        )
        for name in exports:
            here("annotate", "project", "--export", f"project/{name}", cwd=place)
        here("batch", "chats.jsonl", "-m", "length", "-o", "batch2", "--workers", 1, cwd=place)
    here("index", "other.jsonl", "--plain", "-o", "index", "--add", cwd=place)
    assert kind_of(place / "study.json") == "study"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_ratings_are_found_behind_the_scores_of_a_metric(place: Path, ending: str) -> None:
    scores = Scores.concat([Run(place / "run").scores(), example_ratings()])
    scores.write(place / f"both.{ending}")
    before = contents(place)
    said = here("score", "chats.jsonl", "-m", "length", "-o", f"both.{ending}", cwd=place, code=2).stderr
    assert said.startswith(f"dialeval: both.{ending} exists and is something else (ratings): ")
    assert contents(place) == before


def test_the_file_behind_standard_input_is_read_too(place: Path) -> None:
    command = [*DIALEVAL, "convert", "-", "-o", "chats.jsonl"]
    before = contents(place)
    with (place / "chats.jsonl").open("rb") as file:
        done = subprocess.run(command, cwd=place, stdin=file, capture_output=True, text=True, check=False)
    assert (done.returncode, contents(place)) == (2, before)
    assert done.stderr == "dialeval: chats.jsonl is an input: choose another name for the output\n"


@pytest.mark.parametrize(("cache", "said"), [("chats.jsonl", "is a file"), ("run", "(run folder)")])
def test_a_cache_takes_no_place_of_another_kind(
    place: Path, cache: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_CACHE", "")  # the option stays in the environment of the process
    before = contents(place)
    asked = ("score", "chats.jsonl", "-m", "turn-quality", "--cache", cache)
    assert said in here(*asked, cwd=place, code=2).stderr
    assert contents(place) == before


def test_a_kept_name_may_be_empty_or_a_device(place: Path) -> None:
    (place / "empty.json").touch()
    here("study", "run", "ratings.csv", "--resamples", 100, "-o", "empty.json", cwd=place)
    here("study", "run", "ratings.csv", "--resamples", 100, "-o", "/dev/null", cwd=place)
    assert kind_of(place / "empty.json") == "study"


def test_a_reproduction_goes_on_in_the_folder_that_is_called_like_its_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "floweval"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("")
    check_places("reproduce", {"paper": "floweval", "out": Path("floweval")})
    (folder / "rows.jsonl").rename(folder / "notes.txt")
    with pytest.raises(UsageError, match="is something else"):
        check_places("reproduce", {"paper": "floweval", "out": Path("floweval")})


@pytest.mark.parametrize(
    ("verb", "target", "said"),
    [
        ("score", "n" * 300, "File name too long"),
        ("convert", "n" * 300 + ".jsonl", "File name too long"),
        ("batch", "d/" * 2100, "File name too long"),
        ("score", "circle", "circle is a link that leads in a circle"),
        ("index", "circle", "circle is a link that leads in a circle"),
        ("score", "run\udcff", "'run\\udcff' is not UTF-8"),
        ("batch", "batch\udcff", "'batch\\udcff' is not UTF-8"),
    ],
)
def test_a_name_that_no_file_can_have(place: Path, verb: str, target: str, said: str) -> None:
    (place / "circle").symlink_to("round")
    (place / "round").symlink_to("circle")
    before = contents(place)
    assert said in here(verb, *COMMANDS[verb], "-o", target, cwd=place, code=2).stderr
    assert contents(place) == before


def test_an_input_whose_name_is_not_utf8_can_be_read_but_not_recorded(place: Path) -> None:
    name = "chats\udce9.jsonl"
    (place / name).write_bytes((place / "chats.jsonl").read_bytes())
    said = here("score", name, "-m", "length", "-o", "new", cwd=place, code=2).stderr
    assert said == "dialeval: 'chats\\udce9.jsonl' is not UTF-8: rename it\n"
    told = here("score", name, "-m", "length", "--json", cwd=place).stdout
    assert json.loads(told.encode())["input"] == "chats?.jsonl"
