"""The template under examples/plugin in a fresh environment, and plugins that are broken."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import refused

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "examples" / "plugin"
LISTS = """
import contextlib, io, json, sys
from dialeval.cli import main
for what in sys.argv[1:]:
    sys.argv = ["dialeval", "list", what, "--json"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
        main()
    print(json.dumps(json.loads(out.getvalue())))
"""


def run(folder: Path, *words: str) -> str:
    """Run a program; its Python finds what watches the network, and nothing of this source tree."""
    watched = str(ROOT / "tests" / "offline")
    done = subprocess.run(
        words,
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": watched, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of a new environment that has the built package and the template.

    The libraries that they need are those of the tests; pip, which sees them, must not take any away.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (own,) = folder.glob("env/lib/python*/site-packages")
    (own / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    run(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("dialeval-*.whl")
    python = str(folder / "env" / "bin" / "python")
    flags = ("-q", "--ignore-installed", "--no-deps", "--no-build-isolation")
    run(folder, python, "-m", "pip", "install", *flags, str(wheel), str(TEMPLATE))
    where = run(folder, python, "-c", "import dialeval, dialeval_example as it; print(dialeval, it)")
    assert where.count(str(own)) == 2, where
    yield folder / "env" / "bin"
    shutil.rmtree(folder)  # the weights, twice


def test_the_template_is_listed_and_used(programs: Path, tmp_path: Path) -> None:
    def dialeval(*words: str) -> str:
        return run(tmp_path, str(programs / "dialeval"), *words)

    calls = str(TEMPLATE / "calls.jsonl")
    named = {
        "metrics": "echo.v1",
        "formats": "calls",
        "sets": "toychat",
        "systems": "parrot",
        "schemes": "patience",
    }
    listed = run(tmp_path, str(programs / "python"), "-c", LISTS, *named)
    for name, line in zip(named.values(), listed.splitlines(), strict=True):
        assert name in {row["name"] for row in json.loads(line)}
    scored = json.loads(dialeval("score", calls, "-m", "echo", "--json"))
    assert [(row["source"], row["mean"], row["n"]) for row in scored["scores"]] == [("echo", 0.4, 2)]
    found = json.loads(dialeval("benchmark", "toychat", "-m", "echo", "--json"))
    (row,) = (one for one in found["study"]["correlations"] if one["source"] == "echo")
    assert row["spearman"]["value"] == pytest.approx(-0.7515, abs=1e-4)
    dialeval("respond", calls, "--system", "parrot", "-o", "replies.jsonl")
    first = json.loads((tmp_path / "replies.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (first["system"], first["messages"][-1]["content"]) == (
        "parrot",
        "You say: My old phone is broken",
    )
    tested = ("-m", "pytest", "-p", "no:cacheprovider", str(TEMPLATE / "tests"))
    assert " passed" in run(tmp_path, str(programs / "python"), *tested)


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
    point: str, words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "packages" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(point)
    shutil.copy(TEMPLATE / "calls.jsonl", tmp_path / "a.jsonl")
    monkeypatch.syspath_prepend(str(info.parent))
    refused(*words, cwd=tmp_path, code=2, said=said)
