"""What the documentation shows is run: every link, every command with its output, every Python block.

The convention for pages. In a fenced block marked `console`, a line that begins with `$ ` is a command and
what follows is its output, standard error included; any run of blanks equals any other, and `…` stands for
what is left out. A command ends with exit code 0 unless `$ echo $?` comes next and shows another. A block
marked `csv title="judge.csv"` is a file of that name. Blocks of a page are run from top to bottom in one
folder, which holds the bundled examples as `chats.jsonl` and `ratings.csv`. Commands that name a public set
are only parsed, and so are those of the README, which shows no output.
"""

import contextlib
import gc
import importlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
import typer

from dialeval.cli import main
from dialeval.cli.app import app
from dialeval.dialogues.datasets import NAMES
from dialeval.metrics import metric_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = ROOT / "src" / "dialeval"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_PLAIN = {
    "cat",
    "cp",
    "head",
    "ls",
    "mkdir",
    "python",
}  # other commands that pages may show and tests may run


@dataclass(frozen=True)
class Command:
    """A command line of a page, what is shown after it, and the exit code it is said to have."""

    line: str
    shown: str
    code: int


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield found["info"].strip(), found["body"]


def commands(body: str) -> Iterator[Command]:
    parts = [part.partition("\n") for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
    for number, (line, _, shown) in enumerate(parts):
        if line == "echo $?":
            continue
        told = parts[number + 1] if number + 1 < len(parts) and parts[number + 1][0] == "echo $?" else None
        yield Command(line, shown, int(told[2]) if told else 0)


def with_console(*pages: Path) -> list[Path]:
    return [page for page in pages if any(info == "console" for info, _ in blocks(page))]


def words_of(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def needs_public_set(words: list[str]) -> bool:
    return any(Path(word).stem in NAMES for word in words) or words[:3] == ["dialeval", "list", "sets"]


# --- running ------------------------------------------------------------------------------------------------


def run_here(words: list[str], stdin: bytes = b"") -> tuple[str, int]:
    """Run the command line, or a Python file, in this process, so that libraries are imported once."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "utf-8", write_through=True)
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setenv("PATH", environment()["PATH"])
        patch.setattr(sys, "argv", words if words[0] == "dialeval" else words[1:])
        try:
            if words[0] == "dialeval":
                main()
            else:
                patch.setattr(sys, "path", [str(Path.cwd()), *sys.path])
                with warnings.catch_warnings(action="ignore", category=ResourceWarning):
                    runpy.run_path(words[1], run_name="__main__")
                    gc.collect()  # closes the files that the end of a process would close
        except SystemExit as end:
            code = int(end.code or 0)
    return raw.getvalue().decode(), code


def environment() -> dict[str, str]:
    """For other processes: the programs of this environment; vectors are kept from one to the next."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "DIALEVAL_CACHE": str(Path(os.environ["DIALEVAL_HOME"]) / "vectors")}


def run_shell(line: str, folder: Path) -> tuple[str, int]:
    """Run another command, or a pipe, with the `dialeval` and `python` of this environment."""
    done = subprocess.run(
        ["bash", "-c", line], check=False, cwd=folder, capture_output=True, text=True, env=environment()
    )
    return done.stdout + done.stderr, done.returncode


def run_line(line: str, folder: Path) -> tuple[str, int]:
    """Run a command of a page: in this process, if it is one of ours or ends a pipe of plain commands."""
    fed, _, last = line.rpartition(" | ")
    words = words_of(last)
    ours = words[0] == "dialeval" or (words[0] == "python" and words[1].endswith(".py"))
    if not ours or "dialeval" in fed or set(words) & {"|", "<", ">"}:
        return run_shell(line, folder)
    piped, code = run_shell(fed, folder) if fed else ("", 0)
    return (piped, code) if code else run_here(words, piped.encode())


def folded(text: str) -> str:
    return " ".join(text.split())


_VERSION = re.compile(r"(?<=dialeval:)\d+\.\d+\.\d+|(?<=; sha )[0-9a-f]{12}")


def matches(shown: str, printed: str) -> bool:
    """Compare; a version, and the hash of an artefact made on a page, may be those of an earlier release."""
    shown, printed = (_VERSION.sub("version", text) for text in (shown, printed))
    pieces = [re.escape(folded(piece)) for piece in shown.split("…")]
    return re.fullmatch(r"\s*.*?\s*".join(pieces), folded(printed), re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    examples = Path(str(files("dialeval.dialogues") / "examples"))
    shutil.copy(examples / "dialogues.jsonl", tmp_path / "chats.jsonl")
    shutil.copy(examples / "ratings.csv", tmp_path / "ratings.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The longest pages. Their verbs are run by other pages and tests, too: `check` by gate.md, `tune` by its own.
LONG = {DOCS / "monitoring.md", DOCS / "tuning.md"}
RUN = [
    pytest.param(page, marks=[pytest.mark.soak] if page in LONG else [])
    for page in with_console(*DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md")
]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_commands_do_what_the_page_shows(page: Path, folder: Path) -> None:
    for info, body in blocks(page):
        if title := re.search(r'title="([\w./-]+)"', info):
            target = folder / title[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(body, encoding="utf-8")
        if info != "console":
            continue
        for command in commands(body):
            words = words_of(command.line)
            if needs_public_set(words):
                continue
            assert words[0] in _PLAIN | {"dialeval"}, f"this test cannot run: {command.line}"
            printed, code = run_line(command.line, folder)
            assert code == command.code, f"{command.line}\n{printed}"
            assert matches(command.shown, printed), (
                f"$ {command.line}\n--- shown\n{command.shown}\n--- is\n{printed}"
            )


@pytest.mark.parametrize("page", with_console(*PAGES), ids=name_of)
def test_command_lines_parse(page: Path) -> None:
    """Also those that need a public set: the verb and all of its options exist."""
    group = typer.main.get_command(app)
    for info, body in blocks(page):
        for command in commands(body) if info == "console" else ():
            words = words_of(command.line.partition(" | ")[0])
            if words[0] == "dialeval" and len(words) > 1 and not words[1].startswith("-"):
                verb = group.commands[words[1]]  # type: ignore[attr-defined]
                if not set(words) & {"-h", "--help"} and command.code == 0:
                    assert verb.make_context(words[1], words[2:]) is not None


def test_python_page_runs(folder: Path) -> None:
    """The blocks of docs/python.md are one program, and print what the comments behind them say."""
    code = "\n".join(body for info, body in blocks(DOCS / "python.md") if info == "python")
    (folder / "page.py").write_text(code, encoding="utf-8")
    printed, ended = run_here(["python", "page.py"])
    assert ended == 0, printed
    said = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    assert said, "the page shows what is printed"
    assert matches("\n".join(said), printed), f"--- shown\n{chr(10).join(said)}\n--- is\n{printed}"


# --- completeness -------------------------------------------------------------------------------------------


def anchor_of(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for found in _LINK.finditer(text):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{name_of(page)}: {found['target']}"
        if anchor and there.suffix == ".md":
            body = _BLOCK.sub("", there.read_text(encoding="utf-8"))
            headings = re.findall(r"^#+ (.+)$", body, re.MULTILINE)
            assert anchor in map(anchor_of, headings), f"{name_of(page)}: {found['target']}"


def test_every_promise_names_tests_that_are_there() -> None:
    table = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Promises and their tests")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    for row in rows:
        named = re.findall(r"`((?:tests|benchmarks)[\w./*-]*)`", row)
        assert named and all(any(ROOT.glob(one)) for one in named), row


def test_the_sizes_of_packages_are_true() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d,]+) \| (\d+) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    assert {name for name, *_ in rows} == {path.parent.name for path in PACKAGES.glob("*/__init__.py")}
    for name, lines, count in rows:
        texts = [path.read_text(encoding="utf-8") for path in (PACKAGES / name).rglob("*.py")]
        assert len(texts) == pytest.approx(int(count), rel=0.1), name
        written = int(lines.replace(",", ""))
        assert sum(text.count("\n") for text in texts) == pytest.approx(written, rel=0.1), name


def test_every_page_is_on_the_map() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        assert page.name == "index.md" or str(page.relative_to(DOCS)) in index, (
            f"{page} is not in docs/index.md"
        )


@pytest.mark.parametrize("name", metric_names())
def test_every_metric_has_a_page(name: str) -> None:
    text = (DOCS / "metrics" / f"{name}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [
        "What it is",
        "When to use it",
        "Limits",
        "Fields",
        "Signature",
        "Our figures",
        "Paper",
    ]


def test_every_set_is_in_the_table() -> None:
    text = (DOCS / "public-sets.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in text] == []


def test_every_verb_is_shown() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [verb for verb in verbs if f"$ dialeval {verb}" not in text] == []


def test_no_page_names_a_place_of_its_writer() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(work|home|root|tmp)/", text), name_of(page)


STEPS = re.findall(
    r"^\| \d+ \| `([\w/]+)\.py` `([\w.]+)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE
)


def test_the_way_of_one_dialogue_is_told() -> None:
    assert len(STEPS) >= 12


@pytest.mark.parametrize(("module", "name"), STEPS, ids=[f"{module}:{name}" for module, name in STEPS])
def test_the_way_of_one_dialogue_names_what_exists(module: str, name: str) -> None:
    found: object = importlib.import_module(f"dialeval.{module.replace('/', '.')}")
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
