"""Greedy matching: by hand, against a plain double loop, and against the package of BERTScore's authors."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peer_model import as_transformers

from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.models import artefact, matching
from dialeval.models.card import Card
from dialeval.models.conversion import encoder_artefact
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.matching import Idf, Matcher, States, f1_bounds, greedy_match, idf_of_file
from dialeval.models.token_states import TokenStates

ODD = [
    *(
        "x",
        "Ok",
        "a",
        "no no no no no",
        "the the the the",
        "Hmm...",
        "??!?",
        "...",
        "1234567890",
        "I said NO.",
    ),
    *("naïve café crème brûlée", "Das weiß ich leider nicht.", "你好吗 ? 我很好", "Привет, как дела?"),
    *("😀😀 haha that's great", "supercalifragilisticexpialidocious antidisestablishmentarianism"),
    *("It's £12.40, or £8.20 with a railcard.", "Write to jo.doe@example.org.", "3 + 4 = 7, isn't it?"),
    *("[SEP] marks the end of a text [CLS]", "tab\tand  several   blanks", "\u00a0non-breaking\u00a0"),
]
SAID = [*ODD, *sorted({turn.text for one in example_dialogues() for turn in one.turns})[:300:8]]
LIMIT = 1e-4


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a function that scores with the package, on the weights of the encoder that is shipped.

    Where it pads a text, negative cosines become 0 there; where it does not, because no text of the batch is
    longer, they stay. A long pair at the end of one large batch makes it treat all the others alike.
    """
    torch = pytest.importorskip("torch", reason="the package needs torch")
    package = pytest.importorskip("bert_score", reason="needs the package bert-score")
    folder = as_transformers(artefact.load(DEFAULT), tmp_path_factory.mktemp("peer"), longest=512)

    def score(
        candidates: list[str], references: list[list[str]], layer: int, idf: bool = False
    ) -> np.ndarray:
        long = " ".join(SAID[:5])
        found = package.score(
            [*candidates, long],
            [*references, [long]],
            model_type=str(folder),
            num_layers=layer,
            nthreads=0,
            batch_size=1000,
            idf=idf,
        )
        return np.stack([part.numpy() for part in found], axis=1)[:-1]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # where others work, too, several wait for each other
    yield score
    torch.set_num_threads(threads)


def states(rows: Any, weights: Any, kind: Any = None) -> States:
    """What is matched; with a kind, in whole numbers."""
    found = TokenStates.of(range(len(rows)), np.asarray(rows))  # type: ignore[arg-type]
    return States.of(found if kind is None else found.packed(kind), weights)


def random_states(rng: np.random.Generator, tokens: int, width: int = 8, kind: Any = None) -> States:
    return states(rng.normal(size=(tokens, width)), rng.integers(0, 3, size=tokens).astype(float), kind)


def plainly(one: States, other: States) -> list[float]:
    """The definition, word for word, in double precision."""
    if not len(one.rows) or not len(other.rows):
        return [0.0, 0.0, 0.0]
    mine, theirs = (side.rows.astype(float) * side.scales[:, None] for side in (one, other))
    precision = sum(w * max(0, *(a @ b for b in theirs)) for w, a in zip(one.weights, mine, strict=True))
    recall = sum(w * max(0, *(a @ b for a in mine)) for w, b in zip(other.weights, theirs, strict=True))
    return [precision, recall, 2 * precision * recall / (precision + recall or 1)]


@given(
    seed=st.integers(0, 2**32),
    mine=st.integers(0, 9),
    theirs=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, np.int8, np.int16])), max_size=8),
    block=st.integers(1, 20),
    table=st.integers(1, 80),
)
@settings(max_examples=80, deadline=None)
def test_the_same_as_a_plain_double_loop(
    seed: int, mine: int, theirs: list[tuple[int, Any]], block: int, table: int
) -> None:
    rng = np.random.default_rng(seed)
    one = random_states(rng, mine, kind=np.int8 if seed % 2 else None)
    others = [random_states(rng, size, kind=kind) for size, kind in theirs]
    usual = matching.BLOCK_TOKENS, matching.TABLE
    matching.BLOCK_TOKENS, matching.TABLE = block, table
    try:
        found = greedy_match(one, others)
    finally:
        matching.BLOCK_TOKENS, matching.TABLE = usual
    assert found.shape == (len(others), 3)
    expected = np.array([plainly(one, other) for other in others]).reshape(-1, 3)
    expected = np.minimum(expected, 1)  # whole numbers may be a little longer than one
    assert np.abs(found - expected).max(initial=0) <= 1e-5


def test_by_hand() -> None:
    # A text of two tokens, the second counting three times as much, against one token between them.
    one = states(np.array([[2.0, 0.0], [0.0, 5.0]]), [1, 3])
    other = states(np.array([[0.6, 0.8]]), [7])
    assert greedy_match(one, [other])[0] == pytest.approx([0.25 * 0.6 + 0.75 * 0.8, 0.8, 24 / 31], abs=1e-6)
    opposite = states(np.array([[-1.0, 0.0]]), [1])
    assert greedy_match(one, [opposite])[0].tolist() == [0, 0, 0]


def test_nothing_to_compare_scores_0() -> None:
    empty, weightless = states(np.zeros((0, 2)), []), states(np.eye(2), [0, 0])
    some = states(np.eye(2), [1, 1])
    assert not greedy_match(empty, [some, empty]).any()
    assert not greedy_match(some, [empty]).any()
    assert greedy_match(some, [weightless])[0].tolist() == [1, 0, 0]
    assert greedy_match(weightless, [some])[0].tolist() == [0, 1, 0]
    assert greedy_match(some, []).shape == (0, 3)
    assert not greedy_match(states(np.zeros((1, 2)), [1]), [some]).any()  # no NaN of a zero vector


def test_packed_states_are_small_and_move_a_score_by_little() -> None:
    rng = np.random.default_rng(3)
    one, rows = random_states(rng, 30, 384), rng.normal(size=(20, 40, 384))
    exact = greedy_match(one, [states(each, np.ones(40)) for each in rows])
    for kind, size, limit in ((np.int16, 2, 1e-5), (np.int8, 1, 1e-3)):
        packed = [states(each, np.ones(40), kind) for each in rows]
        assert packed[0].rows.nbytes == 40 * 384 * size
        assert 0 < np.abs(greedy_match(one, packed) - exact).max() <= limit
        assert states(np.zeros((0, 4)), [], kind).rows.shape == (0, 4)
        assert not greedy_match(one, [states(np.zeros((2, 384)), [1, 1], kind)]).any()


@pytest.mark.parametrize("layer", range(7))
def test_the_package_gives_the_same(layer: int, encoder: Encoder, peer: Any) -> None:
    candidates, references = SAID[::2], [[one] for one in SAID[1::2]]
    found = Matcher(encoder, layer).score(candidates, references)
    assert np.abs(found - peer(candidates, references, layer)).max() <= LIMIT


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("layer", [4, 6])
def test_the_package_gives_the_same_for_several_references(
    layer: int, idf: bool, encoder: Encoder, peer: Any
) -> None:
    draw = random.Random(5)
    candidates = draw.sample(SAID, 40)
    references = [draw.sample(SAID, draw.randint(1, 5)) for _ in candidates]
    seen = [*(one for some in references for one in some), " ".join(SAID[:5])]  # with the pair at the end
    counted = Idf.of(seen, encoder.tokenizer) if idf else None
    found = Matcher(encoder, layer, counted).score(candidates, references)
    assert np.abs(found - peer(candidates, references, layer, idf=idf)).max() <= LIMIT


def test_the_package_counts_the_same(encoder: Encoder, peer: Any) -> None:
    from bert_score.utils import get_idf_dict
    from tokenizers import Tokenizer

    class Theirs:  # what the package asks of a tokenizer
        model_max_length = 512
        read = Tokenizer.from_file(str(artefact.load(DEFAULT).path("tokenizer.json")))
        read.encode_special_tokens = True  # as ours: a mark that a user typed is text

        def encode(self, text: str, **_: Any) -> list[int]:
            return list(self.read.encode(text).ids)

    expected = get_idf_dict(SAID, Theirs(), nthreads=0)
    idf = Idf.of(SAID, encoder.tokenizer)
    numbers = [*expected, 29999]
    assert idf.texts == len(SAID)
    assert idf.weights(numbers) == pytest.approx([expected[number] for number in numbers], abs=1e-6)
    assert idf.weights([101, 102]).tolist() == [0, 0]  # the marks are in every text


def test_over_long_input_is_cut_where_the_package_fails(encoder: Encoder, peer: Any, tmp_path: Path) -> None:
    long, other = " ".join(SAID * 2), " ".join(reversed(SAID))
    matcher = Matcher(encoder, 6)
    assert matcher.truncated([long, "short", other]) == [True, False, True]
    found = matcher.score([long, long], [["short"], [other]])
    assert np.abs(found - peer([long, long], [["short"], [other]], 6)).max() <= LIMIT
    folder = as_transformers(artefact.load(DEFAULT), tmp_path)  # a tokenizer that was told no limit
    import bert_score

    with pytest.raises((RuntimeError, OverflowError)):
        bert_score.score([long], ["short"], model_type=str(folder), num_layers=6)


def test_words_begin_with_a_blank_in_roberta_too(tmp_path: Path, peer: Any) -> None:
    """The package asks for it; its tokenizer obeys only if the folder says the same."""
    import bert_score

    folder = tiny_roberta(tmp_path / "roberta")
    made = encoder_artefact(
        folder, tmp_path / "made", name="tiny", card=Card("T", "T", licence="mit", command="none")
    )
    candidates, references = [*SAID[:20], " ".join(SAID[:9])], [*SAID[20:40], " ".join(SAID[:9])]
    found = Matcher(Encoder(made), 2).score(candidates, [[one] for one in references])
    theirs = bert_score.score(candidates, references, model_type=str(folder), num_layers=2)
    assert np.abs(found - np.stack([part.numpy() for part in theirs], axis=1)).max() <= LIMIT


def tiny_roberta(folder: Path) -> Path:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import RobertaConfig, RobertaModel

    letters = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = letters
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=marks, initial_alphabet=letters.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(SAID, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    torch.manual_seed(1)
    sizes = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": 130,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "initializer_range": 0.3,
    }
    RobertaModel(RobertaConfig(**sizes)).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, model["merges"]), ""]))
    names = {"cls": "<s>", "bos": "<s>", "sep": "</s>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>"}
    settings_ = {f"{name}_token": mark for name, mark in names.items()}
    settings_ |= {"tokenizer_class": "RobertaTokenizer", "mask_token": "<mask>"}
    settings_ |= {"model_max_length": 128, "add_prefix_space": True}  # type: ignore[dict-item]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings_))
    return folder


def test_of_several_references_the_best_counts_for_each(encoder: Encoder) -> None:
    matcher = Matcher(encoder, 6)
    each = next(matcher.compare(SAID[:1], [SAID[1:6]]))
    assert each.shape == (5, 3)
    assert matcher.score(SAID[:1], [SAID[1:6]])[0].tolist() == each.max(axis=0).tolist()
    for one, row in zip(SAID[1:6], each, strict=True):
        assert matcher.score(SAID[:1], [[one]])[0] == pytest.approx(row, abs=1e-6)


def test_empty_texts_and_no_references_score_0(encoder: Encoder) -> None:
    matcher = Matcher(encoder, 6)
    found = matcher.score(
        ["", " \n", "Hi", "Hi", "\x00", "Hi"], [["Hi"], ["Hi"], ["", " "], [], ["Hi"], ["Hi"]]
    )
    assert not found[:5].any()
    assert found[5] == pytest.approx([1, 1, 1], abs=1e-6)
    assert matcher.score([], []).shape == (0, 3)
    with pytest.raises(UsageError, match="1 candidates, but 2 lists"):
        matcher.score(["a"], [["b"], ["c"]])
    with pytest.raises(UsageError, match="0 candidates, but 1 lists"):
        matcher.score([], [["b"]])


def test_each_text_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    run = Encoder._run

    def count(self: Encoder, texts: list[str], *rest: Any) -> Any:
        seen.extend(texts)
        return run(self, texts, *rest)

    monkeypatch.setattr(Encoder, "_run", count)
    monkeypatch.setattr(matching, "ROOM", 2000)  # several blocks
    matcher = Matcher(Encoder(artefact.load(DEFAULT)), 2)
    matcher.score(SAID + SAID, [SAID[:30]] * 2 * len(SAID))
    assert len(seen) == len(set(seen)) == len({text.strip() for text in SAID})
    matcher.prepare(SAID[:40])
    seen.clear()
    matcher.prepare(SAID[:40])
    matcher.score(SAID[:40], [SAID[10:40]] * 40)
    assert not seen


def test_a_prepared_corpus_moves_no_score_by_more_than_promised(encoder: Encoder) -> None:
    candidates, references = SAID[:20], [SAID[20:]] * 20
    matcher = Matcher(encoder, 6)
    before = list(matcher.compare(candidates, references))
    matcher.prepare(SAID[20:])
    after = list(matcher.compare(candidates, references))
    assert 0 < np.abs(np.array(before) - np.array(after)).max() <= 1e-4


def test_company_order_blocks_and_threads_change_nothing(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = [SAID[place + 1 : place + 5] for place in range(50)]
    expected = Matcher(encoder, 6).score(SAID[:50], references)
    alone = [Matcher(encoder, 6).score([SAID[place]], [references[place]])[0] for place in range(50)]
    assert np.abs(expected - alone).max() <= 1e-5
    order = random.Random(2).sample(range(50), 50)
    monkeypatch.setattr(matching, "ROOM", 300)
    monkeypatch.setattr(matching, "BLOCK_TOKENS", 40)
    for threads in ("1", "3"):
        monkeypatch.setenv("DIALEVAL_THREADS", threads)
        matcher = Matcher(Encoder(artefact.load(DEFAULT)), 6)
        found = matcher.score([SAID[place] for place in order], [references[place] for place in order])
        assert np.abs(found - expected[order]).max() <= 1e-5


def test_counting_over_a_file(encoder: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    turns = [{"role": "user", "content": text} for text in ("A dog.", " ", "A cat.", "Two dogs")]
    path.write_text(json.dumps({"id": "d", "messages": turns}) + "\n")
    found = idf_of_file(str(path), encoder)
    assert found == Idf.of(["A dog.", "A cat.", "Two dogs"], encoder.tokenizer)
    assert found.texts == 3
    path.write_text(json.dumps({"id": "d", "messages": turns[:1]}) + "\n")
    assert idf_of_file(str(path), encoder).texts == 1, "the file has changed"
    path.write_text(json.dumps({"id": "d", "messages": turns[1:2]}) + "\n")
    with pytest.raises(DataError, match=r"corpus\.jsonl: no turn with text"):
        idf_of_file(str(path), encoder)
    with pytest.raises(DataError, match="no such file"):
        idf_of_file(str(tmp_path / "nothing.jsonl"), encoder)


@pytest.mark.soak
def test_ten_thousand_references_of_200_tokens_fit_into_three_gigabytes() -> None:
    """Layer 0 is quick, and as large as any other."""
    code = """
import random, resource
from dialeval.models.encoder import Encoder
from dialeval.models.matching import Matcher
draw = random.Random(1)
words = "train hotel sea you we table dog late night yes no maybe far away good".split()
corpus = [" ".join(draw.choices(words, k=198)) for _ in range(10_000)]
matcher = Matcher(Encoder.load(), 0)
matcher.prepare(corpus)
found = matcher.score(corpus[:40], [draw.sample(corpus, 50) for _ in range(40)])
assert found.shape == (40, 3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert float(done.stdout) <= 3


def _stored(rng: np.random.Generator, tokens: int) -> TokenStates:
    return TokenStates.of(np.arange(tokens), rng.normal(size=(tokens, 384))).packed()


def test_references_that_cannot_be_the_best_are_left_out(encoder: Encoder) -> None:
    """The bounds hold and are close; whatever is worth most is found, with the F1 of the full comparison."""
    rng, matcher = np.random.default_rng(5), Matcher(encoder)
    said = TokenStates.of(np.arange(30), rng.normal(size=(30, 384)) + 0.2)
    stored = [_stored(rng, size) for size in (9, 40, 1, 120, 25, 0, 60)]
    near = said.numbers[:20] + 0.4 * rng.normal(size=(20, 384))
    stored.append(TokenStates.of(said.tokens[:20], near).packed())
    full = next(matcher.compare([said], [stored]))[:, 2]
    bounds = f1_bounds(matcher.weigh(said), [matcher.weigh(one) for one in stored])
    assert ((bounds >= full) & (bounds < full + 0.06))[[size > 0 for size in map(len, stored)]].all()
    for prior in (np.zeros(8), rng.normal(size=8), 0.02 * rng.normal(size=8)):
        (found,) = matcher.decisive([said], [stored], [lambda f1, prior=prior: f1 + prior])
        exact = np.isfinite(found)
        assert int((found + prior).argmax()) == int((full + prior).argmax())
        assert 0 < exact.sum() < len(stored)
        np.testing.assert_allclose(found[exact], full[exact], atol=1e-6)
    assert [len(one) for one in matcher.decisive([said], [[]], [lambda f1: f1])] == [0]
