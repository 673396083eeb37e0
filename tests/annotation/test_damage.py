"""A damaged `study.db` is refused with one line that names it, whatever the command."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from annotation_server import make_study

from dialeval.annotation import AnnotationProject
from dialeval.annotation.export import exports_of, rendered
from dialeval.annotation.monitoring import overlaps
from dialeval.annotation.project import snapshot
from dialeval.errors import DataError

CHANGES = (
    *(
        f"DROP TABLE {name}"
        for name in ("settings", "dialogues", "people", "items", "seats", "answers", "log")
    ),
    *(f"DELETE FROM settings WHERE name = '{name}'" for name in ("scheme", "seed", "secret", "source")),
    *(f"UPDATE settings SET value = '{{x' WHERE name = '{name}'" for name in ("scheme", "schema", "secret")),
    "UPDATE dialogues SET body = x'7b00'",
    "DELETE FROM dialogues WHERE number = 1",
    "UPDATE items SET places = '[]'",
    "UPDATE items SET places = '[[99, 1, 2]]'",
    "UPDATE items SET gold = '['",
    "DELETE FROM items",
    "DELETE FROM people",
    "UPDATE people SET role = 'king'",
    "UPDATE seats SET item = item + 1000",
    "UPDATE answers SET body = '{'",
    """UPDATE answers SET body = '{"quality": {"a": 1}}'""",
    "INSERT INTO verdicts VALUES (0, '[', 1)",
    """UPDATE answers SET body = '{"quality": 2}' WHERE item = 3 AND rater = 'ann'""",
    "UPDATE seats SET place = 1000 + place WHERE rater = 'ann'",
    "UPDATE people SET token = token || 'x' WHERE name = 'ann'",
    "UPDATE sums SET value = replace(value, '1', '2')",
    "DELETE FROM sums WHERE name = 'answers'",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which every rater has answered."""
    folder = make_study(tmp_path_factory.mktemp("damage") / "study")
    project = AnnotationProject(folder)
    with project.store.writing() as db:
        db.execute("UPDATE seats SET state = 'done'")
        db.execute("""INSERT INTO answers SELECT item, rater, '{"quality": 3}', 1.0, 2.0 FROM seats""")
    project.close()
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "study"))


def use(folder: Path) -> None:
    """Do what every command does with a project."""
    project = AnnotationProject(folder)
    try:
        overlaps(project)
        seen = snapshot(project)
        for name in exports_of(project.scheme):
            rendered(seen, name)
        project.add(["dan"])
    finally:
        project.close()


def test_the_whole_one_is_read(copy: Path) -> None:
    use(copy)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_contents(change: str, copy: Path) -> None:
    with sqlite3.connect(copy / "study.db") as db:
        db.execute(change)
    db.close()
    with pytest.raises(DataError, match=r"study\.db: damaged") as caught:
        use(copy)
    assert "\n" not in str(caught.value)


def broken_bytes(data: bytes) -> Iterator[bytes]:
    draw = random.Random(3)
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 40))):
            changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        yield bytes(changed)
    for part in range(6):
        yield data[: len(data) * part // 6]
        yield data[: 4096 * part] + bytes(4096) + data[4096 * (part + 1) :]


def test_a_change_of_the_bytes(copy: Path) -> None:
    path = copy / "study.db"
    refused = 0
    for data in broken_bytes(path.read_bytes()):
        path.write_bytes(data)
        for more in copy.glob("study.db-*"):
            more.unlink()
        try:
            use(copy)
        except DataError as error:
            assert "study.db: " in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 30
