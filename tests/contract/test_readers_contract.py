"""Every reader takes any file for data: it reads it, or it says what is wrong. Nothing else comes out."""

import importlib.util
import pkgutil
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import READERS
from tiny_artefacts import USES

import dialeval
from dialeval.errors import DialevalError
from dialeval.models.artefact import CLASSES

_SLOW = ("artefact", "batch", "model as the Hub", "index", "study", "GGUF", "task")


def tries(name: str) -> int:
    """Give each reader about half a second; the long runs are in soak."""
    return 5 if name.startswith(_SLOW) else 20


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tried")


@pytest.mark.parametrize("name", READERS)
def test_good_files_are_read(name: str, place: Path) -> None:
    """Where what we begin from were refused, nothing behind the refusal would be tried."""
    for content in READERS[name].seeds():
        (place / READERS[name].file).write_bytes(content)
        READERS[name].read(place / READERS[name].file)


@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused(name: str, place: Path) -> None:
    reader, seeds = READERS[name], READERS[name].seeds()

    @settings(max_examples=tries(name), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.integers(0, 2**32), st.integers(1, 3))
    def any_change(seed: int, times: int) -> None:
        chance = random.Random(seed)
        content = chance.choice(seeds)
        for _ in range(times):
            content = reader.mutate(content, chance)
        read_or_refused(reader, place, content)

    any_change()


def read_or_refused(reader: Any, place: Path, content: bytes) -> None:
    (place / reader.file).write_bytes(content)
    try:
        reader.read(place / reader.file)
    except DialevalError as error:
        assert str(error)


@pytest.mark.parametrize("name", [name for name in READERS if not name.startswith(_SLOW)])
def test_a_file_of_anything_else_is_read_or_refused(name: str, place: Path) -> None:
    for content in (b"", b"\x00", b"\xff" * 9, b"\x1f\x8b", b"\x1f\x8b\x08\x00" + bytes(20), b"[" * 9000):
        read_or_refused(READERS[name], place, content)


def test_every_class_of_artefact_is_tried() -> None:
    assert set(USES) == set(CLASSES), "show in tiny_artefacts.py how an artefact of this class is used"


def test_whatever_reads_files_is_tried() -> None:
    """A new module that parses JSON, TOML, CSV or Parquet is either behind a reader here, or in this list."""
    known = PARSED_BY_READERS | OWN_FILES_ONLY
    found = set()
    for module in pkgutil.walk_packages(dialeval.__path__, "dialeval."):
        path = importlib.util.find_spec(module.name).origin  # type: ignore[union-attr]
        text = Path(str(path)).read_text(encoding="utf-8")
        if any(word in text for word in PARSERS):
            found.add(module.name.removeprefix("dialeval."))
    assert found - known == set(), "add a reader to one of *_readers.py, or say here why none is needed"
    assert known - found == set(), "no longer parses anything"


PARSERS = (
    *("json.loads(", "json.load(", "msgspec.json.decode(", "msgspec.json.Decoder(", "msgspec.toml.decode("),
    *("tomllib.load", "csv.DictReader(", "csv.reader(", "read_table(", "ParquetFile(", "zipfile.ZipFile("),
    *("np.memmap(", "ipc.open_file(", "Reader.from_file("),
)
PARSED_BY_READERS = {
    *("annotation.interchange", "annotation.scheme", "dialogues.datasets.rawfiles", "dialogues.votes"),
    *("dialogues.formats.opening", "dialogues.formats.reading", "dialogues.formats.values"),
    *("dialogues.formats.spans", "dialogues.formats.support"),
    *("dialogues.formats.tables", "files", "parquet"),
    *("dialogues.tasks.schema", "dialogues.tasks.task", "dialogues.tasks.venues"),
    *("metrics.agent", "systems.users"),
    *("jobs.batch.folder", "jobs.serving.requests", "jobs.batch.plan"),
    *("jobs.responding", "jobs.runs", "studies.findings", "scores.table", "scores.columns"),
    *("jobs.comparing", "studies.trust_findings"),
    *("metrics.explanation", "cli.places"),
    *("models.archives", "models.conversion", "models.endpoint", "models.index.index"),
    *(
        "models.index.writing",
        "models.language_model",
        "models.tensors",
        "models.tokenization",
        "models.untrusted",
    ),
}
OWN_FILES_ONLY = {
    # a part of the package
    "dialogues.formats.records",
    *("training.segment_recipes", "dialogues.acts", "dialogues.splits", "jobs.benchmark", "jobs.demo"),
    *(
        "metrics.consensus",
        "metrics.agent_calls",
        "metrics.rules",
        "training.fault_injections",
        "models.kinds",
        "models.likelihood",
        "models.downloads",
    ),
    # a data base or folder that only its owner may write to, and what was made a moment ago
    *("annotation.assignment", "annotation.chat_folder", "annotation.project", "jobs.reproduction"),
    *(
        "cli.dialogues",
        "jobs.batch.workers",
        "training.networks",
    ),
    # damage to these is tried where they are tested: test_downloads.py, test_fault_pairs.py, …_checkpoint.py
    *("models.downloads", "dialogues.datasets.fault_pairs", "training.checkpoint"),
}
