"""The loop: the same seed gives the same run, a broken one ends like an unbroken one, others are refused."""

import dataclasses
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import toy_training as toy

from dialeval.errors import DataError, UsageError
from dialeval.manifests import write_sums
from dialeval.training import Head, Step, TrainingSettings, VectorExample, VectorNetwork, fit, predict
from dialeval.training.checkpoint import Checkpoints

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
KINDS = ("vector", "pair")


class Pulled(Exception):
    """The plug."""


def pull_at(number: int):
    def on_step(step: Step) -> None:
        if step.step == number:
            raise Pulled

    return on_step


@pytest.fixture(scope="session")
def unbroken(home: Path) -> dict[str, dict]:
    return {kind: toy.summary(*toy.run(kind, home, folder=None)) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_run(kind: str, home: Path, unbroken: dict) -> None:
    torch.manual_seed(99)  # what the process does with its own chance is of no importance
    assert toy.summary(*toy.run(kind, home, folder=None)) == unbroken[kind]


def test_another_seed_gives_another_run(home: Path, unbroken: dict) -> None:
    other = dataclasses.replace(toy.SETTINGS["vector"], seed=4)
    assert toy.summary(*toy.run("vector", home, other, folder=None))["loss"] != unbroken["vector"]["loss"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_run_ends_like_an_unbroken_one(
    kind: str, home: Path, unbroken: dict, tmp_path: Path
) -> None:
    """Broken between, at and right after checkpoints and looks, with other free settings each time."""
    for number, save_every in ((1, 100), (4, 3), (10, 3), (12, 4), (15, 1), (27, 2)):
        settings = dataclasses.replace(toy.SETTINGS[kind], save_every=save_every)
        with pytest.raises(Pulled):
            toy.run(kind, home, settings, folder=tmp_path / "run", on_step=pull_at(number))
    network, trained = toy.run(kind, home, folder=tmp_path / "run")
    assert toy.summary(network, trained) == unbroken[kind]
    assert trained.resumed_at is not None
    assert 10 < trained.resumed_at <= 27
    ended = toy.run(kind, home, folder=tmp_path / "run", on_step=pull_at(1))  # not a step is made again
    assert toy.summary(*ended) == unbroken[kind]
    assert ended[1].resumed_at == trained.steps
    kept = sorted(entry.name for entry in (tmp_path / "run").iterdir() if not entry.name.startswith("."))
    assert kept == [f"best-{trained.best_step}", "checkpoint"]


def test_the_toys_are_learned(unbroken: dict) -> None:
    """A loop that computes nonsense would be just as reproducible."""
    assert unbroken["vector"]["best"][1] > 0.9
    assert unbroken["pair"]["best"][1] > 0.8
    losses = [look[2] for look in unbroken["vector"]["history"]]
    assert losses[-1] < losses[0] / 5


def test_accumulated_batches_equal_one_large_batch(home: Path) -> None:
    runs = []
    for batch, accumulate in ((16, 1), (4, 4), (1, 16)):
        settings = TrainingSettings(
            batch=batch, accumulate=accumulate, epochs=1, learning_rate=1e-3, dropout=0.0, threads=1, group=3
        )
        losses: list[float] = []
        network, _ = toy.run(
            "pair", home, settings, folder=None, on_step=lambda step, losses=losses: losses.append(step.loss)
        )
        runs.append((losses, network.module.state_dict()))
    (losses, weights), *others = runs
    assert len(losses) == 7
    for other_losses, other_weights in others:
        assert np.abs(np.subtract(losses, other_losses)).max() <= 1e-5
        apart = {name: float((value - other_weights[name]).abs().max()) for name, value in weights.items()}
        for name, value in apart.items():  # a key's bias has no gradient but rounding, which Adam blows up
            assert value <= (1e-2 if name.endswith("key.bias") else 1e-5), name


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    """Judged by a figure that is best in the middle; the network must say again what it said then."""
    train, dev = toy.data_of("vector")
    seen: list[np.ndarray] = []

    def third_is_best(predictions, targets) -> float:
        seen.append(predictions["quality"])
        return float(len(seen) == 3)

    settings = TrainingSettings(batch=16, epochs=6, learning_rate=1e-2, threads=1)
    network = VectorNetwork.fitting(train, toy.HEADS, settings)
    trained = fit(network, train, dev, settings, folder=tmp_path / "run", figure=third_is_best)
    assert (trained.best_step, trained.best_figure) == (3 * 13, 1.0)
    assert trained.figure == "third_is_best"
    assert len(trained.history) == len(seen) == 6
    assert np.abs(predict(network, dev)["quality"] - seen[2]).max() < 1e-6
    assert np.abs(seen[5] - seen[2]).max() > 1e-3


def test_patience_ends_a_run_early(tmp_path: Path) -> None:
    train, dev = toy.data_of("vector")
    figures = iter([0.1, 0.5, 0.5, None, 0.4, 0.9])
    settings = TrainingSettings(batch=16, epochs=6, learning_rate=1e-2, patience=3, threads=1)
    network = VectorNetwork.fitting(train, toy.HEADS, settings)
    trained = fit(network, train, dev, settings, folder=tmp_path, figure=lambda *_: next(figures))
    assert [look.figure for look in trained.history] == [0.1, 0.5, 0.5, None, 0.4]
    assert trained.stopped_early
    assert (trained.best_figure, trained.best_step, trained.steps) == (0.5, 26, 65)
    again = VectorNetwork.fitting(train, toy.HEADS, settings)
    resumed = fit(again, train, dev, settings, folder=tmp_path, figure=lambda *_: next(figures))
    assert resumed.steps == 65


def test_without_dev_examples_the_last_weights_are_kept() -> None:
    train, _ = toy.data_of("vector")
    settings = TrainingSettings(batch=64, epochs=2, learning_rate=1e-2, threads=1)
    trained = fit(VectorNetwork.fitting(train, toy.HEADS, settings), train, settings=settings)
    assert (trained.best_figure, trained.best_step, trained.steps, trained.dev_rows) == (None, 8, 8, 0)
    assert trained.history == ()


def test_every_step_is_told(home: Path) -> None:
    steps: list[Step] = []
    toy.run("vector", home, folder=None, on_step=steps.append)
    assert [step.step for step in steps] == list(range(1, 53))
    assert {step.steps for step in steps} == {52}
    assert [step.epoch for step in steps] == [number // 13 for number in range(52)]
    assert [step.step for step in steps if step.figure is not None] == [*range(7, 52, 7), 52]
    assert steps[0].learning_rate == 1e-2
    assert steps[-1].learning_rate == pytest.approx(1e-2 / 52)
    assert steps[-1].seconds_left == 0.0
    assert all(step.seconds_left > 0 for step in steps[:-1])
    assert set(steps[6].numbers()) == {"epoch", "loss", "learning_rate", "figure"}


def test_a_bar_is_for_people_who_look(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    toy.run("vector", home, folder=None)
    assert capsys.readouterr() == ("", "")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    toy.run("vector", home, folder=None)
    assert "/52" in screen.getvalue()
    assert capsys.readouterr().out == ""


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.fixture
def begun(home: Path, tmp_path: Path) -> Path:
    with pytest.raises(Pulled):
        toy.run("vector", home, folder=tmp_path / "run", on_step=pull_at(9))
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"batch": 8, "seed": 5}}, "batch was 16, is 8; seed was 3, is 5"),
        ({"settings": {"epochs": 7}}, "epochs was 4, is 7"),
        ({"figure": "accuracy"}, "the dev figure was spearman:quality, is accuracy:stop,act"),
        ({"train": 1}, "the training examples differ"),
        ({"dev": 1}, "the dev examples differ"),
        ({"heads": toy.HEADS[:2]}, "encoder or heads differ"),
        ({"hidden": (8,)}, "encoder or heads differ"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(change: dict, message: str, begun: Path) -> None:
    settings = dataclasses.replace(toy.SETTINGS["vector"], **change.get("settings", {}))
    train, dev = toy.data_of("vector")
    heads, hidden = change.get("heads", toy.HEADS), change.get("hidden", (16, 8))
    network = VectorNetwork.fitting(train, toy.HEADS, settings, hidden=hidden)
    if "heads" in change:
        network = VectorNetwork.fitting(train, heads, settings, hidden=hidden)
        train, dev = ([_without_act(example) for example in some] for some in (train, dev))
    before = (begun / "checkpoint" / "state.json").read_bytes()
    some = train[change.get("train", 0) :], dev[change.get("dev", 0) :]
    with pytest.raises(DataError, match=message) as error:
        fit(network, *some, settings, folder=begun, figure=change.get("figure", "spearman:quality"))
    assert "resume=False" in str(error.value)
    assert (begun / "checkpoint" / "state.json").read_bytes() == before


def _without_act(example: VectorExample) -> VectorExample:
    kept = {name: value for name, value in example.targets.items() if name != "act"}
    return VectorExample(example.features, kept)


def test_resume_false_begins_afresh(begun: Path, home: Path, unbroken: dict) -> None:
    network, trained = toy.run("vector", home, folder=begun, resume=False)
    assert trained.resumed_at is None
    assert toy.summary(network, trained) == unbroken["vector"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b"{"),
        ("state.json", b"[]"),
        ("state.json", b'{"state": {}}'),
        ("state.json", b'{"state": {"step": "1"}, "fingerprint": {}}'),
        ("model.safetensors", b"\xff" * 20),
        ("optimiser.safetensors", b""),
    ],
)
def test_a_damaged_checkpoint_is_named(name: str, content: bytes, begun: Path, home: Path) -> None:
    (begun / "checkpoint" / name).write_bytes(content)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        toy.run("vector", home, folder=begun)


def list_again(folder: Path) -> None:
    """Record the files of a folder as they are now: then only what is in them can be wrong."""
    (folder / "SHA256SUMS").unlink()
    write_sums(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors"])
def test_a_flipped_bit_in_a_checkpoint_is_found(name: str, begun: Path, home: Path) -> None:
    content = bytearray((begun / "checkpoint" / name).read_bytes())
    content[-2] ^= 1
    (begun / "checkpoint" / name).write_bytes(content)
    with pytest.raises(DataError, match=f"checkpoint/{name}: does not match SHA256SUMS"):
        toy.run("vector", home, folder=begun)


def test_weights_of_another_shape_are_named(begun: Path, home: Path) -> None:
    best = next(begun.glob("best-*")) / "model.safetensors"
    optimiser = begun / "checkpoint" / "optimiser.safetensors"
    (begun / "checkpoint" / "model.safetensors").write_bytes(optimiser.read_bytes())
    list_again(begun / "checkpoint")
    with pytest.raises(DataError, match=r"model\.safetensors: not the weights of this network"):
        toy.run("vector", home, folder=begun)
    (begun / "checkpoint" / "model.safetensors").write_bytes(best.read_bytes())
    optimiser.write_bytes(best.read_bytes())
    list_again(begun / "checkpoint")
    with pytest.raises(DataError, match=r"optimiser\.safetensors: "):
        toy.run("vector", home, folder=begun)


def test_two_runs_in_one_folder_are_refused(begun: Path, home: Path) -> None:
    with Checkpoints(begun).alone(), pytest.raises(DataError, match="another run is writing here"):
        toy.run("vector", home, folder=begun)


def test_a_folder_that_cannot_be_made_is_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file: File exists"):
        toy.run("vector", home, folder=tmp_path / "file")


def test_what_a_kill_left_half_written_is_removed(begun: Path, home: Path) -> None:
    for name in (".checkpoint.abcdefgh.part", ".best-7.abcdefgh.part"):
        (begun / name).mkdir()
        (begun / name / "model.safetensors").write_bytes(b"half")
    (begun / "notes.txt").write_text("mine")
    toy.run("vector", home, folder=begun)
    left = {entry.name for entry in begun.iterdir()}
    assert not [name for name in left if name.endswith(".part")]
    assert "notes.txt" in left


def test_a_run_that_explodes_says_what_to_do() -> None:
    train = [
        VectorExample(np.array([1.0]), {"quality": 1e30}),
        VectorExample(np.array([2.0]), {"quality": 0.0}),
    ]
    heads, settings = (Head("quality", "regression"),), TrainingSettings(batch=2, learning_rate=1e-3)
    with pytest.raises(UsageError, match=r"step 1: the loss is inf.*lower learning_rate"):
        fit(VectorNetwork.fitting(train, heads, settings), train, settings=settings)


def test_nothing_to_learn_from_is_refused() -> None:
    heads, settings = (Head("quality", "regression"), Head("stop", "binary")), TrainingSettings()
    example = VectorExample(np.array([1.0, 2.0]), {"quality": 1.0})
    network = VectorNetwork(2, heads, settings)
    with pytest.raises(DataError, match="no training examples"):
        fit(network, [])
    with pytest.raises(DataError, match="no training example has a label for the head 'stop'"):
        fit(network, [example])
    with pytest.raises(DataError, match=r"example 1 has features of shape \(3,\), not \(2,\)"):
        network.prepare([example, VectorExample(np.zeros(3), {})])
    with pytest.raises(DataError, match="example 1 has a feature that is not finite"):
        network.prepare([example, VectorExample(np.array([1.0, np.inf]), {})])


def test_the_process_is_left_as_it_was(home: Path) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state(), torch.get_num_threads(), torch.get_deterministic_debug_mode()
    toy.run("vector", home, folder=None)
    after = torch.get_rng_state(), torch.get_num_threads(), torch.get_deterministic_debug_mode()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_a_resumed_run_keeps_its_threads(home: Path, tmp_path: Path) -> None:
    free = dataclasses.replace(toy.SETTINGS["vector"], threads=0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with pytest.raises(Pulled):
            toy.run("vector", home, free, folder=tmp_path, on_step=pull_at(9))
        torch.set_num_threads(2)
        told: list[int] = []
        _, trained = toy.run(
            "vector", home, free, folder=tmp_path, on_step=lambda _: told.append(torch.get_num_threads())
        )
        assert set(told) == {trained.threads} == {1}
    finally:
        torch.set_num_threads(threads)


def test_checkpoints_are_plain_files(begun: Path) -> None:
    names = sorted(entry.name for entry in (begun / "checkpoint").iterdir())
    assert names == ["SHA256SUMS", "model.safetensors", "optimiser.safetensors", "state.json"]
    content = json.loads((begun / "checkpoint" / "state.json").read_bytes())
    assert (content["state"]["step"], content["state"]["finished"]) == (7, False)
