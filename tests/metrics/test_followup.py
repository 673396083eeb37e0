"""The metrics `followup` and `fed`, on a language model small enough for tests."""

import math
from pathlib import Path

import msgspec
import pytest
import tiny_language_model as tiny
from awkward import CASES

from dialeval.dialogues import dialogue, scored_turns
from dialeval.errors import DataError, UsageError
from dialeval.metrics import build, signature_of
from dialeval.metrics.followup import DIALOGUE, TURN, load_sets, sets_mark
from dialeval.models.language_model import open_model
from dialeval.models.likelihood import Position, templates

PULLED = Path("~/.cache/dialeval/models/smollm2-135m-instruct").expanduser()
CHAT = dialogue([("user", "Hi"), ("assistant", "the loo is there"), ("user", "no"), ("assistant", "Hi")], "d")
SETS = """
[manners]
positive = ["Hi", "the loo"]
negative = ["er"]
[turns-only]
level = "turn"
positive = ["Hi there"]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return tiny.save_both(tmp_path_factory.mktemp("followup"))[1]


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    (tmp_path / "sets.toml").write_text(SETS)
    return tmp_path / "sets.toml"


def test_the_value_is_the_contrast(model: Path, sets: Path) -> None:
    said = ["Hi", "the loo", "er"]
    found = open_model(str(model)).answer(CHAT, [Position(1, "user")], said, templates()["chatml"], 200)[0]
    means = [total / count for total, count in zip(found.totals, found.counts, strict=True)]
    made = build(f"followup:model={model},sets={sets}")
    assert made.dimensions == ("manners", "turns-only")
    rows = {(row.turn, row.dimension): row for row in made.score([CHAT])}
    assert rows[1, "manners"].value == pytest.approx((means[0] + means[1]) / 2 - means[2], abs=1e-5)
    assert rows[None, "turns-only"].value is None
    assert rows[None, "turns-only"].note == "asked of turns only"
    assert rows[None, "manners"].value == pytest.approx(rows[3, "manners"].value, abs=1e-5)
    summed = build(f"followup:model={model},sets={sets},normalisation=none").score([CHAT])
    wanted = (found.totals[0] + found.totals[1]) / 2 - found.totals[2]
    assert next(iter(summed)).value == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", ["followup", "fed"])
def test_awkward_input_with_a_model(name: str, case: str, model: Path, sets: Path) -> None:
    own = f",sets={sets}" if name == "followup" else ""
    made = build(f"{name}:model={model},window=128,template=eos{own}")
    most = 400 if name == "followup" else 12  # a tree of all of fed's follow-ups in bytes is a large one
    chats = [msgspec.structs.replace(one, turns=one.turns[:most]) for one in CASES[case]]
    rows = list(made.score(chats))
    assert len(rows) == sum((len(scored_turns(one)) + 1) * len(made.dimensions) for one in chats)
    for row in rows:
        assert (row.value is None) == (row.note not in (None, "truncated"))
        assert row.value is None or math.isfinite(row.value)


def test_levels_and_company_change_nothing(model: Path, sets: Path) -> None:
    spec = f"followup:model={model},sets={sets}"
    both = {(row.dialogue_id, row.turn, row.dimension): row.value for row in build(spec).score([CHAT])}
    for level in ("turn", "dialogue"):
        other = dialogue([("A", "Hi"), ("B", "er")], "other")
        for row in build(f"{spec},level={level}").score([other, CHAT]):
            if row.dialogue_id == "d":
                assert row.value == pytest.approx(both["d", row.turn, row.dimension], abs=1e-5)


def test_fed_has_its_qualities(model: Path) -> None:
    rows = list(build(f"fed:model={model}").score([CHAT]))
    scored = {(row.turn, row.dimension): row.value for row in rows if row.value is not None}
    assert {name for turn, name in scored if turn == 1} == {"overall", *TURN}
    assert {name for turn, name in scored if turn is None} == {"overall", *DIALOGUE}
    mean = sum(scored[None, name] for name in DIALOGUE) / len(DIALOGUE)
    assert scored[None, "overall"] == pytest.approx(mean)


def test_the_faithful_setting_runs_on_a_causal_model(model: Path) -> None:
    folder = model.with_suffix("")
    found = build(f"fed:model=hub:{folder},template=eos,level=dialogue").score([CHAT])
    again = build(f"fed:model={model},template=eos,level=dialogue").score([CHAT])
    for one, other in zip(found, again, strict=True):
        assert one.value is None or one.value == pytest.approx(other.value, abs=1e-4)


def test_without_the_model_the_note_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path))
    for row in build("followup").score([CHAT]):
        assert row.value is None
        assert "dialeval models pull smollm2-135m-instruct" in str(row.note)
    with pytest.raises(UsageError, match="at least 32"):
        build("followup:window=8").score([CHAT])


def test_the_signature_names_what_was_asked(model: Path, sets: Path) -> None:
    one = str(signature_of(build(f"followup:model={model},sets={sets}")))
    assert "template:chatml" in one
    assert str(model) not in one
    sets.write_text(SETS.replace("er", "oo"))
    assert str(signature_of(build(f"followup:model={model},sets={sets}"))) != one
    assert sets_mark("followups").startswith("followups@")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no dimension"),
        ("a = 1", "a: Expected `object`"),
        ("[a]\npositive = 'x'", "a.positive: Expected `array`"),
        ("[a]\npositive = [' ']", r"a\.positive\[0\]: Expected `str` matching"),
        ("[a]\n", "neither positive nor negative"),
        ("[a]\npositive = ['x']\nlevel = 'system'", "a.level: Invalid enum value 'system'"),
        ("[a]\nhappy = ['x']", "a: Object contains unknown field `happy`"),
        ("[a", "not TOML"),
    ],
)
def test_bad_sets_are_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(DataError, match=said):
        load_sets(str(tmp_path / "bad.toml"))


@pytest.mark.skipif(not PULLED.is_dir(), reason="dialeval models pull smollm2-135m-instruct")
def test_a_real_model_hears_the_difference() -> None:
    asked = "Do you like films?"
    good = [
        ("user", asked),
        ("assistant", "I love them! I saw Alien again last night. What is your favourite?"),
    ]
    bad = [("user", asked), ("assistant", "Films films. I do not know what is question like.")]
    chats = [dialogue(good, "good"), dialogue(bad, "bad")]
    found = {
        row.dialogue_id: row.value for row in build(f"followup:model={PULLED},level=dialogue").score(chats)
    }
    assert found["good"] > found["bad"] + 0.1
