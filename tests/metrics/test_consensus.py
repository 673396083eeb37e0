"""Metrics made reference-free by a corpus: FlowEval's parts, and any metric that needs references."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import sacrebleu

from dialeval.dialogues import Dialogue, dialogue
from dialeval.dialogues.formats import read
from dialeval.errors import UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.indexing import index_to
from dialeval.metrics import build, signature_of
from dialeval.metrics.consensus import Consensus
from dialeval.metrics.floweval import ConsensusBertScore, FlowEval, FlowEvalSeg
from dialeval.models.consensus import EXAMPLES, NOTE, Description, open_corpus


@pytest.fixture(scope="module")
def people() -> list[Dialogue]:
    return list(read(EXAMPLES))[:14]


@pytest.fixture(scope="module")
def folder(people: list[Dialogue], tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("consensus") / "people"
    index_to(people, made)
    return str(made)


@pytest.fixture(scope="module")
def chats() -> list[Dialogue]:
    return example_dialogues()[::9]


def values(made: Any, dialogues: list[Dialogue], dimension: str) -> list[float | None]:
    return [row.value for row in made.score(dialogues) if row.dimension == dimension]


def references(folder: str, chat: Dialogue, k: int) -> list[str]:
    corpus, _ = open_corpus(folder, Description())
    (found,) = corpus.retrieve(Description().describe([chat]), 0, k)
    return [text(corpus.dialogue(row)) for row in found.rows]


def text(chat: Dialogue) -> str:
    return " ".join(turn.text for turn in chat.turns)


def test_acts_alone_are_floweval_with_all_weight_on_them(folder: str, chats: list[Dialogue]) -> None:
    whole = FlowEval(folder, ka=9, kc=0, w=1.0, scale=0, smoothing="method3")
    made = FlowEvalSeg(folder, k=9, smoothing="method3")
    assert made.dimensions == ("acts",)
    assert values(made, chats, "acts") == values(whole, chats, "overall") == values(whole, chats, "acts")
    for one, other in zip(made.explain(chats), whole.explain(chats), strict=True):
        assert (one.value, one.reference, one.dimension) == (other.value, other.reference, "acts")


def test_content_alone_is_floweval_with_no_weight_on_acts(folder: str, chats: list[Dialogue]) -> None:
    for idf in (False, True):
        whole = FlowEval(folder, ka=0, kc=6, w=0.0, idf=idf, scale=0)
        made = ConsensusBertScore(folder, k=6, idf=idf)
        assert made.dimensions == ("content",)
        assert (
            values(made, chats, "content")
            == values(whole, chats, "overall")
            == values(whole, chats, "content")
        )
        for one, other in zip(made.explain(chats), whole.explain(chats), strict=True):
            same = one.reference and other.reference and one.reference.id == other.reference.id
            assert same and (one.value, one.dimension) == (other.value, "content")


@pytest.mark.parametrize("spec", ["chrf", "bleu"])
def test_any_metric_with_neighbours_for_references(folder: str, chats: list[Dialogue], spec: str) -> None:
    found = values(Consensus(spec, folder, k=5), chats, "likeness")
    inner = build(spec)
    first = inner.dimensions[0]
    for chat, value in zip(chats, found, strict=True):
        asked = dialogue(
            [("user", ""), ("assistant", text(chat))], references={1: references(folder, chat, 5)}
        )
        (expected,) = [row.value for row in inner.score([asked]) if row.dimension == first]
        assert value == pytest.approx(expected, abs=1e-9)
        assert value > 0


def test_chrf_by_the_package_of_its_authors(folder: str, chats: list[Dialogue]) -> None:
    found = values(Consensus("chrf", folder, k=4), chats, "likeness")
    expected = [sacrebleu.sentence_chrf(text(chat), references(folder, chat, 4)).score for chat in chats]
    scale = 100 if max(filter(None, found)) <= 1 else 1
    assert [scale * value for value in found if value is not None] == pytest.approx(expected, abs=1e-6)


def test_options_of_the_inner_metric(folder: str, chats: list[Dialogue]) -> None:
    made = build(f"consensus:metric=bertscore;layer=3,k=4,corpus={folder}")
    assert made.metric == "bertscore;layer=3"
    assert values(made, chats[:2], "likeness") != values(
        Consensus("bertscore", folder, k=4), chats[:2], "likeness"
    )
    assert "layer:3" in dict(signature_of(made).fields)["metric"]
    assert "layer:6" in dict(signature_of(Consensus("bertscore", folder)).fields)["metric"]


def test_references_by_personas(people: list[Dialogue], tmp_path: Path) -> None:
    """Who was given most of the same sentences comes first; who shares none is no reference."""
    given: list[Any] = [
        {"A": ["I keep bees."], "B": ["I live in Oslo."]},
        ["i live in oslo", "I keep bees!", "I am a nurse."],
        {"A": ["I am a nurse."]},
        [],
    ]
    corpus = [
        msgspec.structs.replace(one, meta={"personas": some})
        for one, some in zip(people, given, strict=False)
    ]
    index_to([*corpus, people[5]], tmp_path / "personas")
    lines = ["I am a nurse.", "I keep bees.", "I live in Oslo."]
    chat = dialogue(
        [("user", "I keep bees in Oslo, and you?"), ("assistant", "Me, too!")], "d", meta={"personas": lines}
    )
    opened, _ = open_corpus(str(tmp_path / "personas"), Description())
    assert opened.alike_in_personas(chat, 9) == [1, 0, 2]
    assert opened.alike_in_personas(corpus[1], 9) == [0, 2], "not itself"
    made = Consensus("chrf", str(tmp_path / "personas"), k=2, by="personas")
    asked = dialogue(
        [("user", ""), ("assistant", text(chat))], references={1: [text(corpus[1]), text(corpus[0])]}
    )
    expected = [row.value for row in build("chrf").score([asked])]
    assert values(made, [chat], "likeness") == pytest.approx(expected)
    (row,) = made.score([people[7]])
    assert row.value is None
    assert row.note


def test_a_dialogue_of_the_corpus_is_not_its_own_reference(folder: str, people: list[Dialogue]) -> None:
    same = msgspec.structs.replace(people[2], id="same")
    (value,) = values(Consensus("chrf", folder), [same], "likeness")
    assert value is not None
    assert value < (90 if value > 1 else 0.9)


def test_what_cannot_be_scored_says_why(folder: str) -> None:
    silent = [dialogue([], "a"), dialogue([("user", " ")], "b"), dialogue([("system", "Be kind.")], "c")]
    rows = list(Consensus("bleu", folder).score([*silent, dialogue([("user", "Hi there.")], "d")]))
    assert [(row.dialogue_id, row.value is None, row.note) for row in rows] == [
        ("a", True, "no text"),
        ("b", True, "no text"),
        ("c", True, "no text"),
        ("d", False, None),
    ]
    assert list(Consensus("bleu", folder).score([])) == []


def test_two_dialogues_of_one_name(folder: str) -> None:
    one, other = dialogue([("user", "Hi there, how are you?")], "d"), dialogue([("user", "Zzz.")], "d")
    (first,), (second,) = (values(Consensus("chrf", folder), [chat], "likeness") for chat in (one, other))
    assert first != second
    assert values(Consensus("chrf", folder), [one, other], "likeness") == [first, second]


def test_the_bundled_corpus_is_said_and_signed(chats: list[Dialogue]) -> None:
    made = Consensus("chrf", "examples", k=3)
    assert {row.note for row in made.score(chats[:2])} == {NOTE}
    fields = dict(signature_of(made).fields)
    assert fields["corpus"].startswith("examples@")
    assert "chrf.v1" in fields["metric"]


def test_bad_calls(folder: str, chats: list[Dialogue], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="k=0"):
        Consensus("bleu", folder, k=0)
    with pytest.raises(UsageError, match="no metric called 'cake'"):
        Consensus("cake", folder).score(chats[:1])
    with pytest.raises(UsageError, match="has no field 'sugar'"):
        Consensus("bleu;sugar=1", folder).score(chats[:1])
    with pytest.raises(UsageError, match="no corpus"):
        Consensus("bleu", str(tmp_path / "nothing")).score(chats[:1])
    for made in (FlowEvalSeg(folder, k=0), ConsensusBertScore(folder, k=0)):
        with pytest.raises(UsageError, match="at least one reference"):
            made.score(chats[:1])
