"""Training by name: what is read, what is kept out, what the card says, what is refused and when."""

import hashlib
import json
import shlex
from pathlib import Path

import pytest
import toy_recipes as toy

from dialeval.dialogues import dialogue, formats
from dialeval.dialogues.splits import bucket
from dialeval.errors import DataError, UsageError
from dialeval.jobs.training import command_of, settings_of, train_to
from dialeval.models.artefact import verify
from dialeval.training import TrainingSettings
from dialeval.training.data import read_split, source_of

pytest.importorskip("torch")
pytest.importorskip("transformers")
ENCODERS = Path(__file__).parents[1] / "training"


def unwatched(stage: str, count: int) -> None:
    pass


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the toy package, no public sets, and a file of forty dialogues."""
    monkeypatch.syspath_prepend(str(toy.install(tmp_path / "site")))
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    toy.write_chats(tmp_path / "chats.jsonl", 40)
    return tmp_path


def test_a_file_to_an_artefact_with_a_card(place: Path) -> None:
    told: list[tuple[str, int]] = []
    made = train_to(
        "toy", ["chats.jsonl"], "my toy", settings={"epochs": "9"}, watch=lambda *step: told.append(step)
    )
    held = sum(bucket(chat.id) == 0 for chat in toy.chats(40))
    assert (made["examples"], made["dev_examples"], made["dialogues"]) == (40 - held, held, 40)
    assert (made["dropped"], made["in_dev_too"], made["resumed_at"]) == (0, 0, None)
    assert made["dev"] > 0.9
    found = verify("my toy")
    assert (made["sha"], made["class"], made["folder"]) == (found.sha, "dialogue-scorer.v1", "my toy")
    assert found.config["training"]["settings"]["epochs"] == 9
    card = (place / "my toy" / "README.md").read_text()
    assert "dialeval train toy chats.jsonl --set epochs=9 -o 'my toy'" in card
    assert 'license_name: "see-data"' in card
    assert f"sha256 {hashlib.sha256((place / 'chats.jsonl').read_bytes()).hexdigest()}" in card
    assert "40 training dialogues" in card
    stages = list(dict.fromkeys(stage for stage, _ in told))
    assert stages == ["dialogues read", "dialogues made into examples", ""]  # no test data is here
    assert sum(count for stage, count in told if stage == "dialogues made into examples") == 40


def test_a_run_folder_and_another_file_to_choose_by(place: Path) -> None:
    from dialeval.jobs.scoring import score_to

    toy.write_chats(place / "held.jsonl", 10, "held")
    score_to(formats.read("chats.jsonl"), ["length"], "run", name="chats.jsonl")
    made = train_to("toy", ["run"], "out", dev=["held.jsonl"], licence="cc-by-4.0")
    assert (made["examples"], made["dev_examples"]) == (40, 10)
    card = (place / "out" / "README.md").read_text()
    assert 'license: "cc-by-4.0"' in card
    assert "10 dev dialogues" in card
    assert "dialeval train toy run --dev held.jsonl --licence cc-by-4.0 -o out" in card


def test_more_dialogues_can_be_kept_out(place: Path) -> None:
    chats = list(formats.read("chats.jsonl"))
    formats.write(chats[:7], "mine.jsonl")
    made = train_to("toy", ["chats.jsonl"], "out", without=["mine.jsonl"])
    assert (made["dropped"], made["guarded"]) == (7, ["mine.jsonl"])
    assert made["examples"] + made["dev_examples"] == 33
    assert (
        "dialeval train toy chats.jsonl --without mine.jsonl -o out" in (place / "out/README.md").read_text()
    )


def test_the_same_call_resumes_and_fresh_does_not(place: Path) -> None:
    first = train_to("toy", ["chats.jsonl"], "out")
    again = train_to("toy", ["chats.jsonl"], "out")
    fresh = train_to("toy", ["chats.jsonl"], "out", fresh=True)
    assert (first["resumed_at"], again["resumed_at"], fresh["resumed_at"]) == (None, first["steps"], None)
    assert first["sha"] == again["sha"] == fresh["sha"]
    with pytest.raises(DataError, match="a checkpoint of another run: batch was 8, is 4"):
        train_to("toy", ["chats.jsonl"], "out", settings={"batch": "4"})


def test_an_encoder_makes_another_kind_of_network(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ENCODERS))
    import toy_training

    toy_training.make_encoder(place / "tiny")
    made = train_to(
        "toy", ["chats.jsonl"], "out", encoder="tiny", storage="int8", settings={"epochs": "1", "batch": "16"}
    )
    assert made["class"] == "pair-scorer.v1"
    config = json.loads((place / "out" / "config.json").read_text())
    assert (config["encoder"], config["storage"]) == ("tiny", "int8")
    assert (
        "--encoder tiny --set epochs=1 --set batch=16 --storage int8"
        in (place / "out" / "README.md").read_text()
    )


# --- ActDial ------------------------------------------------------------------------------------------------


def test_a_folder_of_actdial_is_divided_by_its_names(place: Path) -> None:
    toy.write_actdial(place / "actdial", ["train", "valid", "test"])
    made = train_to("toy-acts", ["actdial/"], "acts")
    assert (made["examples"], made["dev_examples"]) == (36, 36)
    assert made["figure"] == "accuracy"
    assert made["dev"] > 0.9
    card = (place / "acts" / "README.md").read_text()
    assert "12 training dialogues; 12 dev dialogues; files: 3; sha256 of their sha256sum lines" in card
    chosen = toy.write_chats(place / "chosen.jsonl", 5, "chosen")
    data = read_split([source_of("actdial")], [source_of(str(chosen))], unwatched)
    assert (len(data.train), len(data.dev)) == (12, 5)
    assert len(read_split([source_of("chats.jsonl")], [source_of("actdial")], unwatched).dev) == 12


def test_what_an_actdial_folder_calls_test_is_not_learned_from(place: Path) -> None:
    folder = toy.write_actdial(place / "actdial", ["train", "valid", "test"])
    leaked = json.loads((folder / "test.json").read_text())[:6]  # two dialogues, under other names
    rows = json.loads((folder / "train.json").read_text())
    rows += [{**row, "index": row["index"].replace("boats_test", "ships_train")} for row in leaked]
    (folder / "train.json").write_text(json.dumps(rows))
    made = train_to("toy-acts", ["actdial"], "acts")
    assert made["dropped"] == 2
    assert (made["examples"], made["dev_examples"]) == (36, 36)
    assert "| left out as test data | 2 |" in (place / "acts" / "README.md").read_text()


def test_actdial_without_a_split_is_all_to_learn_from(place: Path) -> None:
    source = source_of(str(toy.write_actdial(place / "plain", [""])))
    data = read_split([source], [], unwatched)
    assert (len(data.train), data.dev) == (12, [])
    assert data.train[0].turns[0].meta["segments"][0]["act"] == "question"
    one = source_of(str(place / "plain" / "all.json"))
    assert one.train is not None
    assert list(one.train()) == data.train
    assert one.note.startswith("sha256 ")


# --- public sets --------------------------------------------------------------------------------------------


def test_a_public_set_brings_its_dev_part_and_guards_its_test_part(place: Path) -> None:
    folder = toy.write_actdial(place / "data" / "actdial", ["train", "valid", "test"])
    test = json.loads((folder / "test.json").read_text())
    stolen = dialogue([("a", row["fs_text"].upper()) for row in test[:3]], "stolen", meta={"good": 1})
    formats.write([*toy.chats(40), stolen], place / "chats.jsonl")
    made = train_to("toy", ["chats.jsonl"], "out")
    assert (made["dropped"], made["guarded"]) == (1, ["actdial"])
    assert "fed" in made["not_here"]
    made = train_to("toy-acts", ["set:actdial"], "acts")
    assert (made["examples"], made["dev_examples"], made["dropped"]) == (36, 36, 0)
    card = (place / "acts" / "README.md").read_text()
    assert "| actdial | none stated | 12 training dialogues; 12 dev dialogues; ActDial" in card
    config = json.loads((place / "acts" / "config.json").read_text())
    assert config["training"]["sets"] == ["actdial"]  # what `dialeval benchmark` reads
    assert json.loads((place / "out" / "config.json").read_text())["training"]["filtered"] == ["actdial"]
    both = [source_of("set:actdial/dev"), source_of("chats.jsonl")]
    data = read_split(both, [], unwatched)
    assert (len(data.train), data.dev) == (53, [])


def test_sources_are_named_as_in_every_command(place: Path) -> None:
    toy.write_actdial(place / "data" / "actdial", ["train", "valid", "test"])
    formats.write(toy.chats(40)[:25], place / "logs-a.jsonl")
    formats.write(toy.chats(40)[25:], place / "logs-b.jsonl")
    (place / "logs").mkdir()
    formats.write(toy.chats(40), place / "logs" / "all.jsonl")
    for texts, count in (
        (["logs-*.jsonl"], 40),
        (["logs-a.jsonl", "logs-b.jsonl"], 40),
        (["logs"], 40),
        (["actdial/dev"], 12),
        (["actdial"], 12),
    ):
        data = read_split([source_of(text) for text in texts], [], unwatched)
        assert len(data.train) == count, texts
    assert source_of("actdial").public == source_of("set:actdial").public == "actdial"
    assert source_of("logs-*.jsonl").note.startswith("files: 2; sha256 of their sha256sum lines")
    toy.write_actdial(place / "actdial", ["train"])  # a folder of one's own goes before the set
    assert (source_of("actdial").public, source_of("set:actdial").public) == (None, "actdial")


def test_what_is_to_choose_by_is_not_learned_from(place: Path) -> None:
    formats.write(toy.chats(40)[30:], place / "held.jsonl")
    data = read_split([source_of("chats.jsonl")], [source_of("held.jsonl")], unwatched)
    assert (len(data.train), len(data.dev), data.in_dev_too) == (30, 10, 10)
    assert "10 left out because they are in the dev set" in data.rows[1][2]
    with pytest.raises(DataError, match="all 40 training dialogues are in the dev set too"):
        train_to("toy", ["chats.jsonl"], "out", dev=["chats.jsonl"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("set:cake", "no public set called 'cake'; known: "),
        ("set:fed", "set:fed has no training data; use another source"),
        ("set:fed/test", "must not be trained on"),
        ("set:fed/half", "expected set:fed, set:fed/train, set:fed/dev or set:fed/text"),
        ("set:empathetic", "no training data; use set:empathetic/dev"),
        ("set:convai2/text", "convai2 has no test portion; use set:convai2"),
        ("-", "cannot read a pipe"),
    ],
)
def test_sources_that_cannot_be(source: str, message: str, place: Path) -> None:
    for name in ("fed", "convai2", "chitchat/empathetic_dialogues"):
        (place / "data" / name).mkdir(parents=True)
    with pytest.raises(UsageError, match=message):
        train_to("toy", [source], "out")
    assert not (place / "out.training").exists()


def test_data_that_are_not_there(place: Path) -> None:
    (place / "empty.jsonl").write_text("")
    (place / "folder").mkdir()
    (place / "odd").mkdir()
    (place / "odd" / "list.json").write_text('{"a": 1}')
    for source, message in (
        ("nowhere.jsonl", r"nowhere\.jsonl: no such file"),
        ("empty.jsonl", r"empty\.jsonl: no dialogues"),
        ("folder", "no dialogues in folder"),
        ("odd", r"list\.json:1: no known kind of dialogue: keys are a"),
        ("set:swda", "the public set 'swda' was not found"),
    ):
        with pytest.raises(DataError, match=message):
            train_to("toy", [source], "out")
    with pytest.raises(UsageError, match=r"chats\.jsonl is given twice"):
        train_to("toy", ["chats.jsonl", "chats.jsonl"], "out")


def test_when_all_is_test_data_the_message_says_so(place: Path) -> None:
    folder = toy.write_actdial(place / "data" / "actdial", ["test"])
    rows = json.loads((folder / "test.json").read_text())
    said = [dialogue([("a", row["fs_text"]) for row in rows[at : at + 3]]) for at in range(0, 36, 3)]
    formats.write(said, place / "test.jsonl")
    with pytest.raises(DataError, match="of 12 dialogues none is left for the training set"):
        train_to("toy-acts", ["test.jsonl"], "out")


def test_folders_that_cannot_be_written(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="mine: the target exists and is not an artefact"):
        train_to("toy", ["chats.jsonl"], "mine")
    for out in (".", "/", "mine/.."):
        with pytest.raises(UsageError, match="name a new folder"):
            train_to("toy", ["chats.jsonl"], out)
    assert (place / "mine" / "thesis.txt").read_text() == "years of work"


def test_encoders_that_are_not_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="no such encoder folder"):
        train_to("toy", ["nowhere.jsonl"], "out", encoder="./nowhere")  # refused before data are looked at
    (place / "empty").mkdir()
    for encoder in ("empty", "no-such/encoder"):
        with pytest.raises(DataError, match=f"{encoder}: not an encoder"):
            train_to("toy", ["chats.jsonl"], "out", encoder=encoder)


# --- settings and command -----------------------------------------------------------------------------------


def test_settings_are_typed_and_checked() -> None:
    given = {"batch": "4", "clip": "0", "schedule": "constant", "dropout": "0.2", "seed": "7"}
    expected = TrainingSettings(batch=4, clip=0.0, schedule="constant", dropout=0.2, seed=7)
    assert settings_of(TrainingSettings(), given) == expected
    assert settings_of(TrainingSettings(dropout=0.2), {"dropout": "None"}).dropout is None
    assert settings_of(toy.QUICK, {}) == toy.QUICK


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("bach", "4", "no setting 'bach'; there are: batch, accumulate, learning_rate, epochs"),
        ("batch", "four", "batch=four: expected a whole number"),
        ("batch", "4.0", "expected a whole number"),
        ("batch", "0", "batch must be an integer of at least 1"),
        ("learning_rate", "fast", "learning_rate=fast: expected a number"),
        ("learning_rate", "nan", "learning_rate cannot be nan"),
        ("dropout", "some", "expected a number or none"),
        ("schedule", "cosine", "expected constant or linear"),
    ],
)
def test_settings_that_cannot_be(key: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings_of(TrainingSettings(), {key: text})


def test_the_command_can_be_typed_again() -> None:
    command = command_of(
        "toy", ["a b.jsonl", "set:uss"], Path("out"), dev=["it's.jsonl"], encoder="x/y", device="cpu"
    )
    assert shlex.split(command)[2:] == [
        *("toy", "a b.jsonl", "set:uss", "--dev", "it's.jsonl"),
        *("--encoder", "x/y", "--device", "cpu", "-o", "out"),
    ]
