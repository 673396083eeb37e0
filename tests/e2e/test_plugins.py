"""The template under examples/plugin, built and installed as pip does it, and plugins that are broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[2] / "examples" / "plugin"
CALL = {
    "call": "c1",
    "lines": [["customer", "My old phone is broken"], ["agent", "Your old phone is broken"]],
}
DIALEVAL = ("-c", "from dialeval.cli import main; main()")


def run(folder: Path, *words: str, code: int = 0) -> str:
    path = os.pathsep.join([str(folder / "packages"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def names(folder: Path, what: str) -> set[str]:
    return {row["name"] for row in json.loads(run(folder, *DIALEVAL, "list", what, "--json"))}


def test_the_template_is_listed_and_used(tmp_path: Path) -> None:
    flags = ("--no-deps", "--no-build-isolation", "--target", "packages")
    run(tmp_path, "-m", "pip", "install", "-q", *flags, str(TEMPLATE))
    (tmp_path / "calls.jsonl").write_text(json.dumps(CALL), encoding="utf-8")
    for what, name in {
        "metrics": "echo.v1",
        "formats": "calls",
        "sets": "toychat",
        "systems": "parrot",
        "schemes": "patience",
    }.items():
        assert name in names(tmp_path, what)
    scored = json.loads(run(tmp_path, *DIALEVAL, "score", "calls.jsonl", "-m", "echo", "--json"))
    assert [(row["source"], row["mean"], row["n"]) for row in scored["scores"]] == [("echo", 0.8, 1)]
    found = json.loads(run(tmp_path, *DIALEVAL, "benchmark", "toychat", "-m", "echo", "--json"))
    (row,) = (one for one in found["study"]["correlations"] if one["source"] == "echo")
    assert row["spearman"]["value"] == pytest.approx(-0.7515, abs=1e-4)
    run(tmp_path, *DIALEVAL, "respond", "calls.jsonl", "--system", "parrot", "-o", "replies.jsonl")
    (reply,) = map(json.loads, (tmp_path / "replies.jsonl").read_text(encoding="utf-8").splitlines())
    assert (reply["system"], reply["messages"][-1]["content"]) == (
        "parrot",
        "You say: My old phone is broken",
    )
    assert " passed" in run(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", str(TEMPLATE / "tests"))


@pytest.mark.parametrize(
    ("point", "words", "said"),
    [
        ("[dialeval.formats]\nx = nowhere:X", ("inspect", "a.jsonl"), "format 'x' is nowhere:X, which fails"),
        ("[dialeval.formats]\nx = json:dumps", ("inspect", "a.jsonl"), "json:dumps, which is no RecordShape"),
        ("[dialeval.metrics]\nx = nowhere", ("score", "a.jsonl", "-m", "x"), "'x' is nowhere, which fails"),
        ("[dialeval.sets]\nx = os:sep", ("convert", "x", "-o", "y.jsonl"), "which is no PublicSet"),
        (
            "[dialeval.schemes]\nx = os:sep",
            ("annotate", "a.jsonl", "--scheme", "x", "-o", "s"),
            "'x' is os:sep, which is no Path (it is of odd: mend that, or uninstall it)",
        ),
    ],
)
def test_a_broken_plugin_is_one_line_that_names_it(
    point: str, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    info = tmp_path / "packages" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(point)
    (tmp_path / "a.jsonl").write_text(json.dumps(CALL), encoding="utf-8")
    shown = run(tmp_path, *DIALEVAL, *words, code=2)
    assert said in shown and shown.count("\n") == 1
