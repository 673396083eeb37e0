"""The GitHub action: its steps run by bash as a runner does, in a repository with a base branch."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import dialeval

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXAMPLES = ROOT / "src" / "dialeval" / "dialogues" / "examples" / "dialogues.jsonl"


def chats(system: str, path: Path) -> None:
    """Write one bot's dialogues, each under the id of its scenario."""
    chosen = (one for one in dialeval.read(EXAMPLES) if one.system == system)
    dialeval.write(
        (dialeval.dialogue(one.turns, one.meta["scenario"], system=system) for one in chosen), path
    )


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *names, *words], check=True, cwd=folder, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone whose base branch holds the chats of one bot, and whose working copy those of another."""
    (tmp_path / "origin" / "logs").mkdir(parents=True)
    chats("good-bot", tmp_path / "origin" / "logs" / "chats.jsonl")
    for words in (("init",), ("add", "."), ("commit", "-m", "released")):
        git(tmp_path / "origin", *words)
    git(tmp_path, "clone", "-q", "origin", "checkout")
    (tmp_path / "bin").mkdir()
    command = f'#!/bin/sh\nexec "{sys.executable}" -c "from dialeval.cli import main; main()" "$@"\n'
    (tmp_path / "bin" / "dialeval").write_text(command)
    (tmp_path / "bin" / "dialeval").chmod(0o755)
    return tmp_path / "checkout"


def run_steps(folder: Path, **given: str) -> tuple[int, str, dict[str, str]]:
    """Run the steps until one fails; return its exit code, the summary and the outputs."""
    temporary = folder.parent
    inputs = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | given
    known = {**{f"inputs.{name}": text for name, text in inputs.items()}, "github.base_ref": "main"}
    summary, outputs = temporary / "summary.md", temporary / "outputs"
    code = 0
    for step in ACTION["runs"]["steps"]:
        if step.get("if") == "inputs.install == 'true'" and inputs["install"] != "true":
            continue
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            check=False,
            cwd=folder,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                **{name: filled(text, known) for name, text in step.get("env", {}).items()},
                "PATH": f"{temporary / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "RUNNER_TEMP": str(temporary),
                "GITHUB_STEP_SUMMARY": str(summary),
                "GITHUB_OUTPUT": str(outputs),
            },
        )
        if code := done.returncode:
            break
    lines = outputs.read_text().splitlines() if outputs.exists() else []
    told = summary.read_text(encoding="utf-8") if summary.exists() else done.stdout + done.stderr
    return code, told, dict(line.split("=", 1) for line in lines)


def filled(text: Any, known: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ ([\w.]+)(?: \|\| [\w.]+)? \}\}", lambda found: known[found[1]], str(text))


def test_a_worse_bot_fails_and_the_summary_says_why(checkout: Path) -> None:
    chats("repetitive-bot", checkout / "logs" / "chats.jsonl")
    code, summary, outputs = run_steps(
        checkout, chats="logs/chats.jsonl", metrics="repetition length", install="false"
    )
    assert (code, outputs["passed"]) == (1, "false")
    assert "By repetition, new is worse than base." in summary
    row = r"^\| \*\*repetition\*\*.* \| worse \| 0\.318 .* \| 0\.020 .* \| 0\.338 "
    assert re.search(row, summary, re.MULTILINE)
    assert "repetition" in Path(outputs["report"]).read_text(encoding="utf-8")


def test_the_same_bot_passes_against_a_run_folder(checkout: Path) -> None:
    from dialeval.jobs.scoring import score_to

    score_to(dialeval.read(checkout / "logs" / "chats.jsonl"), ["repetition"], checkout / "released")
    code, summary, outputs = run_steps(
        checkout, chats="logs/chats.jsonl", baseline="released", metrics="repetition", install="false"
    )
    assert (code, outputs["passed"]) == (0, "true")
    assert "not told apart" in summary


def test_chats_that_the_base_branch_lacks_are_an_error_that_says_so(checkout: Path) -> None:
    chats("good-bot", checkout / "new file; touch hacked.jsonl")
    code, told, _ = run_steps(checkout, chats="new file; touch hacked.jsonl", install="false")
    assert code == 1 and "is not on main yet" in told
    assert not (checkout / "hacked.jsonl").exists()


def test_no_input_is_part_of_a_script() -> None:
    assert [step["name"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]] == []
