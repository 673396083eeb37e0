"""The command line, called by tests: in a process of its own (`run`), or in this one (`here`)."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dialeval.cli import main

DIALEVAL = [sys.executable, "-c", "from dialeval.cli import main; main()"]


def run(
    *arguments: object, cwd: Path, stdin: str | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [*DIALEVAL, *map(str, arguments)]
    environment = {**os.environ, "PYTHONWARNINGS": "error", "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    assert "Traceback" not in done.stderr
    return done


def here(*arguments: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Libraries are imported once: for all that needs no process to show what it shows."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    words, found = ["dialeval", *map(str, arguments)], 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as end:
            found = int(end.code or 0)
    said, told = (one.buffer.getvalue().decode() for one in (out, err))  # type: ignore[attr-defined]
    assert found == code, (found, said[-500:], told[-2000:])
    return subprocess.CompletedProcess(words, found, said, told)


def refused(*arguments: object, cwd: Path, code: int, said: str) -> None:
    """Check that a command says no: nothing on standard output, and why in one line on standard error."""
    done = here(*arguments, cwd=cwd, code=code)
    assert (done.stdout, len(done.stderr.strip().splitlines())) == ("", 1), done
    assert said in done.stderr
