"""schemathesis on the service's OpenAPI document: what is promised is kept, what is wrong is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("schemathesis")

from scoring_service import ScoringService

# What JSON Schema cannot say (an id used twice, a reference to a turn that is not there) is a 422;
# what it can say is a 400, and nothing else.
SETTINGS = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "422"]
[checks.negative_data_rejection]
expected-statuses = ["400", "413", "415", "404", "405", "406"]
"""


def explore(service: ScoringService, folder: Path, examples: int, *more: str) -> str:
    """Run schemathesis and return what it says; it must find nothing."""
    (folder / "schemathesis.toml").write_text(SETTINGS)
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("--config-file", str(folder / "schemathesis.toml"), "run"),
        f"http://127.0.0.1:{service.port}/openapi.json",
        *("--checks", "all", "--max-examples", str(examples)),
        *("--seed", "1", "--no-color", "--generation-database", "none", *more),
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    return said


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with ScoringService("-m", "length", "-m", "repetition") as service:
        said = explore(service, tmp_path, 15)
        found = re.search(r"(\d+) generated, (\d+) passed", said)
        assert found and int(found[1]) > 50, said
        assert service.figure("dialeval_requests_total") > 50
        assert service.get("/health").status == 200
