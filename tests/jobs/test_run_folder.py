"""A run folder is on record: what was written is what is read, also after a kill, or the file is named."""

import shutil
from pathlib import Path

import pytest

from dialeval import files, manifests
from dialeval.cli.places import kind_of
from dialeval.dialogues import dialogue
from dialeval.dialogues.formats import read
from dialeval.errors import DataError
from dialeval.jobs.runs import Run, study_input
from dialeval.jobs.scoring import score_to
from dialeval.models.artefact import save
from dialeval.models.card import Card
from dialeval.scores import Score, Scores
from dialeval.studies import study
from dialeval.training.recipe import _check_target

CHATS = [dialogue([("user", "Hi!"), ("assistant", f"Number {n}.")], f"d{n}", system="bot") for n in range(6)]
LISTED = ("dialogues.jsonl", "joined.parquet", "run.json", "scores.parquet", "study.json")


def ratings(value: float) -> Scores:
    return Scores.of([Score(f"d{n}", 1, "bot", "human:ann", "overall", value + n) for n in range(6)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    score_to(CHATS, ["length"], folder)
    run = Run(folder)
    run.add(study(Scores.concat([run.scores(), ratings(1)]), resamples=20, permutations=20), ratings(1))
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Run:
    return Run(shutil.copytree(whole, tmp_path / "run"))


def use(run: Run) -> tuple[object, ...]:
    return (run.scores(), list(run.dialogues()), run.info(), run.study(), list(run.explanations()))


@pytest.mark.parametrize("name", LISTED)
def test_a_changed_or_missing_file_is_named(run: Run, name: str) -> None:
    use(run)
    path = run.path / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"{name}: does not match SHA256SUMS"):
        use(run)
    if name == "dialogues.jsonl":
        with pytest.raises(DataError, match="does not match"):
            list(read(run.path))
    path.unlink()
    with pytest.raises(DataError, match=r"(is missing, though SHA256SUMS lists it|not a run folder)"):
        use(Run(run.path))


def test_a_damaged_study_is_not_forgotten_in_silence(run: Run) -> None:
    """It says which folders the study was made of: to forget them would make another study."""
    (run.path / "study.json").write_bytes(b"{}")
    with pytest.raises(DataError, match=r"study\.json: does not match.*--fresh"):
        study_input([run.path])
    given = study_input([run.path], fresh=True)
    run.add(study(given.scores, resamples=20, permutations=20), given.joined)
    assert run.scores().sources == ["length"]
    assert not (run.path / "joined.parquet").exists()


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_kill_between_two_files_leaves_a_run_that_is_read(
    run: Run, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """List, joined ratings, study, list: whichever were written, each file is the old or the new one."""
    before, left = ratings(1), kept
    real = files.replacing

    def dying(path: Path, *rest: object, **more: object) -> object:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return real(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(manifests, "replacing", dying)
    monkeypatch.setattr(files, "replacing", dying)  # the list is written by it
    found = run.study()
    assert found is not None
    with pytest.raises(KeyboardInterrupt):
        run.add(found, ratings(2))
    monkeypatch.undo()
    use(run)
    (joined,) = run._joined()
    assert list(joined) == list(ratings(2) if kept >= 2 else before)
    run.add(found, ratings(3))
    assert len((run.path / "SHA256SUMS").read_text().splitlines()) == len(LISTED)
    use(run)


def test_folders_of_older_versions_are_read(run: Run) -> None:
    (run.path / "SHA256SUMS").unlink()
    use(run)
    run.add(study(run.scores(), resamples=20, permutations=20), ratings(2))
    use(run)


def test_a_list_of_hashes_makes_no_model(run: Run, tmp_path: Path) -> None:
    """Models are known by theirs: a run is not to be trained over, nor a batch taken for one."""
    assert kind_of(run.path) == "run folder"
    with pytest.raises(DataError, match="is not an artefact"):
        _check_target(run.path)
    with pytest.raises(DataError, match="which is not part of an artefact"):
        save(run.path, "gguf.v1", {}, {}, Card("Mine", "", licence="mit", command="none"))
    (tmp_path / "begun").mkdir()
    for name in ("log.jsonl", "SHA256SUMS"):
        (tmp_path / "begun" / name).touch()
    assert kind_of(tmp_path / "begun") == "batch"
