"""The language model runtime: two independent ways to compute must agree, and what is damaged is refused."""

import struct
from pathlib import Path

import numpy as np
import pytest
import tiny_language_model as tiny

from dialeval.dialogues import dialogue
from dialeval.errors import DataError, UsageError
from dialeval.models.gguf import _KINDS, BytePairs, Gguf
from dialeval.models.language_model import mark, open_model
from dialeval.models.likelihood import Position, Tree, spoken, templates
from dialeval.models.llama import Llama

SAID = ["Hi there", "Hi", "loo the", "other 12!"]
CHAT = dialogue(
    [("user", "Hi"), ("assistant", "the loo <|im_end|> is there"), ("user", "thanks"), ("assistant", "Hi")],
    "d",
)
ASKED = [Position(1, "user"), Position(3, "user"), Position(2, "assistant"), Position(None, "user")]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("transformers")
    return tiny.save_both(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("template", list(templates()))
def test_numpy_equals_torch(both: tuple[Path, Path], template: str) -> None:
    folder, file = both
    ways = [open_model(f"hub:{folder}"), open_model(str(file))]
    one, other = (way.answer(CHAT, ASKED, SAID, templates()[template], 200) for way in ways)
    for left, right in zip(one, other, strict=True):
        assert left.counts == right.counts
        np.testing.assert_allclose(left.totals, right.totals, atol=1e-4)
        assert not left.cut


def test_torch_equals_reading_each_sentence_by_itself(both: tuple[Path, Path]) -> None:
    """No shared state, no tree: the whole text once per continuation."""
    import torch
    from transformers import AutoModelForCausalLM

    folder, file = both
    model, template = AutoModelForCausalLM.from_pretrained(folder).eval(), templates()["chatml-bare"]
    words = BytePairs(Gguf(file))
    before: list[int] = words.marks(template.close)[:1]
    for one in spoken(CHAT)[:2]:
        before += words.marks(template.opening(one.side)) + words.words([one.text])[0]
        before += words.marks(template.close)
    before += words.marks(template.opening("user"))
    found = open_model(str(file)).answer(CHAT, [Position(1, "user")], SAID, template, 200)[0]
    for text, total in zip(SAID, found.totals, strict=True):
        said = words.words([text])[0]
        with torch.no_grad():
            logits = torch.log_softmax(model(torch.tensor([before + said])).logits[0], dim=-1)
        each = [float(logits[len(before) + place - 1, token]) for place, token in enumerate(said)]
        assert total == pytest.approx(sum(each), abs=1e-4)


def test_later_turns_and_other_questions_change_nothing(both: tuple[Path, Path]) -> None:
    _, file = both
    model, template = open_model(str(file)), templates()["chatml"]
    together = model.answer(CHAT, ASKED, SAID, template, 200)
    shorter = dialogue([(turn.speaker, turn.text) for turn in CHAT.turns[:2]], "s")
    model._cache.clear()
    alone = model.answer(shorter, [Position(1, "user")], SAID[::-1], template, 200)[0]
    np.testing.assert_allclose(together[0].totals, alone.totals[::-1], atol=1e-5)


def test_a_typed_mark_is_text(both: tuple[Path, Path]) -> None:
    words = BytePairs(Gguf(both[1]))
    assert words.marks("<|im_end|>") == [2]
    assert len(words.words(["<|im_end|>"])[0]) == 10


def test_long_dialogues_are_read_in_windows(both: tuple[Path, Path]) -> None:
    model = open_model(str(both[1]))
    chat = dialogue([(("user", "assistant")[turn % 2], f"Hi there {turn}") for turn in range(60)], "long")
    questions = [Position(turn, "user") for turn in range(1, 60, 2)]
    found = model.answer(chat, questions, SAID, templates()["chatml-bare"], 128)
    assert not found[0].cut
    assert found[-1].cut
    assert all(np.isfinite(one.totals).all() for one in found)
    shorter = dialogue([(turn.speaker, turn.text) for turn in chat.turns[:40]], "less")
    again = model.answer(shorter, questions[:20], SAID, templates()["chatml-bare"], 128)
    np.testing.assert_array_equal(found[19].totals, again[19].totals)


def test_answers_are_kept_between_runs(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_CACHE", str(tmp_path / "cache"))
    from dialeval.models import language_model

    language_model._opened.cache_clear()
    first = open_model(str(both[1])).answer(CHAT, ASKED, SAID, templates()["chatml"], 200)
    language_model._opened.cache_clear()
    model = open_model(str(both[1]))
    model._compute = None  # type: ignore[attr-defined]  # nothing is left to compute
    again = model.answer(CHAT, ASKED, SAID, templates()["chatml"], 200)
    language_model._opened.cache_clear()
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.totals, other.totals)


def test_a_tree_without_inner_nodes(both: tuple[Path, Path]) -> None:
    llama = Llama(Gguf(both[1]))
    found = llama.log_likelihoods([5, 6, 7], [(3, Tree.of([[token] for token in range(llama.vocabulary)]))])
    assert np.exp(np.concatenate(found[0])).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("number", "bits", "offset"), [(2, 4, 8), (3, 4, 0), (6, 5, 16), (7, 5, 0), (8, 8, 0)]
)
def test_quantised_weights_come_back(number: int, bits: int, offset: int) -> None:
    """Packed here as the format says, by another road than the reader's: bit by bit."""
    rng = np.random.default_rng(number)
    levels = rng.integers(-127, 128, 32) if bits == 8 else rng.integers(0, 1 << bits, 32)
    scale, shift = np.float16(0.25), np.float16(-1.5)
    packed = scale.tobytes() + (shift.tobytes() if number in (3, 7) else b"")
    if bits == 5:
        packed += sum(int(level >> 4) << place for place, level in enumerate(levels)).to_bytes(4, "little")
    if bits == 8:
        packed += levels.astype(np.int8).tobytes()
    else:
        packed += bytes(int(levels[one] & 15) | int(levels[one + 16] & 15) << 4 for one in range(16))
    name, group, size, expand = _KINDS[number]
    assert (group, size) == (32, len(packed)), name
    wanted = 0.25 * (levels - offset) + (-1.5 if number in (3, 7) else 0)
    np.testing.assert_allclose(expand(np.frombuffer(packed, np.uint8).reshape(1, -1))[0], wanted)


def test_bfloat_is_the_upper_half() -> None:
    packed = np.array([1.5, -2.0], np.float32).view(np.uint32) >> 16
    raw = packed.astype("<u2").view(np.uint8).reshape(2, 2)
    np.testing.assert_array_equal(_KINDS[30][3](raw).ravel(), [1.5, -2.0])


def test_damaged_files_are_refused(both: tuple[Path, Path], tmp_path: Path) -> None:
    whole = both[1].read_bytes()
    cases = {
        "empty": b"",
        "not one": b"hello, this is no model",
        "version": b"GGUF" + struct.pack("<I", 9) + whole[8:],
        "huge": whole[:8] + struct.pack("<Q", 1 << 60) + whole[16:],
        "head only": whole[:200],
        "half": whole[: len(whole) // 2],
    }
    for name, content in cases.items():
        file = tmp_path / f"{name}.gguf"
        file.write_bytes(content)
        with pytest.raises(DataError, match=str(file)):
            Llama(Gguf(file))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("general.architecture", "mamba", "only llama"),
        ("llama.attention.head_count", 3, "attention"),
        ("llama.feed_forward_length", 97, "shape"),
        ("tokenizer.ggml.pre", "mystery", "unsupported pre-tokenizer"),
        ("tokenizer.ggml.model", "llama", "byte pairs"),
        ("llama.rope.scaling.type", "yarn", "attention"),
    ],
)
def test_what_is_not_known_is_said(
    both: tuple[Path, Path], tmp_path: Path, field: str, value: object, said: str
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        tensors = tiny.tensors_of(AutoModelForCausalLM.from_pretrained(both[0]))
    file = tiny.write_gguf(tmp_path / "odd.gguf", tiny.fields() | {field: value}, tensors)
    with pytest.raises(DataError, match=said):
        open_model(str(file))


def test_names_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="dialeval models pull smollm2-135m-instruct"):
        open_model("smollm2-135m-instruct")
    with pytest.raises(DataError, match="no such file"):
        open_model(str(tmp_path / "none.gguf"))
    with pytest.raises(DataError, match="not a language model"):
        open_model(f"hub:{tmp_path}")
    assert mark("smollm2-135m-instruct") == "smollm2-135m-instruct"


def test_a_folder_is_named_by_its_content(both: tuple[Path, Path]) -> None:
    assert mark(f"hub:{both[0]}") != f"hub:{both[0]}"
    assert mark(str(both[1])) == mark(str(both[1]))
    assert len(mark(str(both[1]))) == 12
