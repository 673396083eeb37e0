"""FlowEval against the paper's equations in a plain loop, and what it says of dialogues of all kinds."""

import math
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from plain_floweval import Plain

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.formats import read
from dialeval.errors import UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.indexing import index_to
from dialeval.metrics import build, signature_of
from dialeval.metrics.floweval import ConsensusBertScore, FlowEval, FlowEvalSeg
from dialeval.models.act_flows import ActBert
from dialeval.models.consensus import EXAMPLES, NOTE, Description, open_corpus
from dialeval.models.encoder import Encoder
from dialeval.models.segment_acts import SegmentActs
from dialeval.scores import Scores

CLAUSES: dict[str, Any] = {"acts": "dialeval-segment-act", "splitter": "punkt+comma"}
"""Another classifier and splitter: clauses that are encoded by themselves."""


def table(scores: Scores) -> dict[tuple[str, str], float | None]:
    return {(row.dialogue_id, row.dimension): row.value for row in scores}


@pytest.fixture(scope="module")
def people() -> list[Dialogue]:
    return list(read(EXAMPLES))


@pytest.fixture(scope="module")
def chats() -> list[Dialogue]:
    return example_dialogues()[::8][:8]


@pytest.fixture(scope="module")
def small(people: list[Dialogue], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("floweval") / "small"
    index_to(people[:12], made)
    return made


@pytest.fixture(scope="module")
def plain(people: list[Dialogue]) -> Plain:
    return Plain(people)


@pytest.mark.parametrize(
    ("ka", "kc", "w", "idf", "smoothing"),
    [
        (40, 10, 0.1, False, "method4"),
        (40, 10, 0.1, True, "method4"),
        (3, 2, 0.5, False, "method3"),
        (7, 0, 0.3, False, "method4"),
        (0, 9, 0.3, True, "method3"),
        (100, 100, 1.0, False, "method4"),
    ],
)
def test_the_equations_in_a_plain_loop(
    plain: Plain, chats: list[Dialogue], ka: int, kc: int, w: float, idf: bool, smoothing: Any
) -> None:
    made = FlowEval("examples", ka=ka, kc=kc, w=w, idf=idf, smoothing=smoothing, scale=0, **CLAUSES)
    found = made.explain(chats)
    asked = Plain(chats)
    for number, one in enumerate(found):
        value, reference = plain.score(asked, number, ka, kc, w, idf, smoothing)
        assert one.value == pytest.approx(value, abs=1e-3)
        assert one.reference is not None
        if one.reference.id != reference:
            print(one.reference.id, reference, one.value, value)
    assert table(made.score(chats)) == {
        (one.dialogue_id, dimension): pytest.approx(value, abs=1e-5)
        for one in found
        for dimension, value in {"overall": one.value, **one.parts}.items()
    }


def test_other_layers(people: list[Dialogue], chats: list[Dialogue], tmp_path: Path) -> None:
    index_to(people[:9], tmp_path / "low", layer=3, acts_layer=4, **CLAUSES)
    low, asked = Plain(people[:9], h=4, l=3), Plain(chats[:3], h=4, l=3)
    made = FlowEval(str(tmp_path / "low"), ka=4, kc=2, w=0.4, h=4, l=3, scale=0, **CLAUSES)
    for number, one in enumerate(made.explain(chats[:3])):
        value, _ = low.score(asked, number, 4, 2, 0.4, idf=True, smoothing="method4")
        assert one.value == pytest.approx(value, abs=1e-3)


def test_an_explanation_adds_up(chats: list[Dialogue], people: list[Dialogue]) -> None:
    made = FlowEval("examples", w=0.35, scale=0)
    texts = {one.id: [turn.text for turn in one.turns] for one in people}
    for one, chat in zip(made.explain(chats), chats, strict=True):
        acts, content = one.parts["acts"], one.parts["content"]
        assert (one.dialogue_id, one.dimension, one.note) == (chat.id, "overall", NOTE)
        assert acts is not None and content is not None
        assert one.value == pytest.approx(0.35 * acts + 0.65 * content, abs=1e-9)
        assert one.reference is not None
        assert len(one.reference.turns) == len(texts[one.reference.id])
        assert one.aligned
        for own, other in one.aligned:
            assert one.own.labels[own] == one.reference.labels[other] is not None


def test_a_dialogue_of_the_corpus_is_not_its_own_reference(people: list[Dialogue]) -> None:
    same = people[6]
    longer = msgspec.structs.replace(same, id="longer", turns=(*same.turns, Turn("speaker2", "Right, bye!")))
    renamed = msgspec.structs.replace(same, id="renamed")
    for one in FlowEval("examples").explain([same, longer, renamed]):
        assert one.reference is not None
        assert one.reference.id != same.id
        assert one.parts["content"] < 0.9  # type: ignore[operator]
    seg, content = FlowEvalSeg("examples").explain([same]), ConsensusBertScore("examples").explain([same])
    assert same.id not in (seg[0].reference.id, content[0].reference.id)  # type: ignore[union-attr]
    assert (seg[0].parts, content[0].parts) == ({"acts": seg[0].value}, {"content": content[0].value})


def soup(times: int) -> Dialogue:
    """A bot that answers everything with one word, as the worst one of the paper (Table 6) does."""
    asked = [
        "Hello! My bicycle has a flat tyre and it is raining. What are you up to?",
        "You like soup, I take it. I am a baker, and you?",
        "Ha! I get up at three every morning. Do you get up early?",
        "Is there anything else that you can say?",
        "You have said that before.",
    ]
    reply = "Soup" + ", soup" * (times - 1) + "."
    return dialogue(
        [turn for one in asked for turn in (("user", one), ("assistant", reply))], f"soup-{times}"
    )


@pytest.mark.parametrize(
    "made",
    [FlowEval("examples", w=0.4, scale=0, **CLAUSES), FlowEvalSeg("examples", **CLAUSES)],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("times", [12, 13, 25])
def test_a_bot_with_one_word_is_last(made: FlowEval | FlowEvalSeg, times: int) -> None:
    scores = made.score([*example_dialogues(), soup(times)])
    values = {row.dialogue_id: row.value for row in scores if row.dimension == made.dimensions[0]}
    assert min(values, key=lambda name: values[name] or 0.0) == f"soup-{times}"


CHINESE = "language zh: its models know en (language=any scores it)"


def awkward() -> dict[str, tuple[Dialogue, str | None]]:
    """Dialogues by what is odd about them, and the reason where they cannot be scored."""
    return {
        one.id: (one, reason)
        for one, reason in [
            (dialogue([("user", "Hi, is anybody there?")], "one turn"), None),
            (dialogue([("A", "Hi."), ("A", "Anybody?"), ("A", "Well.")], "one speaker"), None),
            (dialogue([("user", "?!"), ("assistant", "... --- ...")], "punctuation"), None),
            (dialogue([("user", "你好吗"), ("assistant", "我很好,谢谢你。你呢?")], "Chinese"), CHINESE),
            (dialogue([("user", "مرحبا، كيف حالك؟"), ("assistant", "بخير")], "Arabic"), None),
            (dialogue([("user", "😀"), ("assistant", "👩‍👩‍👧‍👦 🏳️‍🌈")], "emoji"), None),
            (dialogue([("user", "x")], "one letter"), None),
            (dialogue([("user", "hello " * 3000)], "longer than the encoder reads"), None),
            (
                dialogue(
                    [("system", "Be kind."), ("user", "Hi"), ("tool", "{}"), ("assistant", "Hi!")], "tools"
                ),
                None,
            ),
            (dialogue([], "no turns"), "no text"),
            (dialogue([("user", ""), ("assistant", " \n")], "blank"), "no text"),
            (dialogue([("user", None)], "null"), "no text"),
            (dialogue([("system", "Be kind."), ("tool", "22")], "nobody spoke"), "no text"),
        ]
    }


@pytest.mark.parametrize(
    "spec",
    [
        "floweval",
        "floweval-seg",
        "consensus-bertscore",
        "floweval:kc=0",
        "floweval:ka=0",
        "floweval:idf=true",
    ],
)
def test_awkward_dialogues(spec: str, small: Path) -> None:
    head, _, options = spec.partition(":")
    cases = awkward()
    made = build(f"{head}:corpus={small}" + (f",{options}" if options else ""))
    rows = list(made.score([one for one, _ in cases.values()]))
    assert [(row.dialogue_id, row.dimension) for row in rows] == [
        (name, dimension) for name in cases for dimension in made.dimensions
    ]
    for row in rows:
        reason = cases[row.dialogue_id][1]
        assert row.note == reason
        assert (row.value is None) == (reason is not None)
        least, most = (-99, 99) if row.dimension == "overall" else (0, 4)  # standard deviations
        assert row.value is None or (math.isfinite(row.value) and least <= row.value <= most)
    for one in made.explain([one for one, _ in cases.values()]):
        reason = cases[one.dialogue_id][1]
        assert reason == CHINESE or (one.reference is None) == (reason is not None)


def test_what_a_tool_says_does_not_count(small: Path) -> None:
    bare = dialogue([("user", "Is it cold outside?"), ("assistant", "Four degrees.")], "d")
    more = dialogue(
        [("system", "Be brief."), *((one.speaker, one.text) for one in bare.turns), ("tool", "4")], "d"
    )
    made = FlowEval(str(small))
    assert table(made.score([bare])) == table(made.score([more]))


def test_no_dialogues(small: Path) -> None:
    for made in (FlowEval(str(small)), FlowEvalSeg(str(small)), ConsensusBertScore(str(small))):
        assert list(made.score([])) == []
        assert made.explain([]) == []


@pytest.mark.soak
def test_ten_thousand_segments(small: Path) -> None:
    turns = [
        (
            "user" if turn % 2 else "assistant",
            ", ".join(f"word {turn % 50} and {piece}" for piece in range(20)),
        )
        for turn in range(500)
    ]
    long = dialogue(turns, "long")  # type: ignore[arg-type]
    start = time.process_time()
    found = table(FlowEval(str(small)).score([long]))
    seconds = time.process_time() - start
    assert len(SegmentActs.load().label([long])[0].turns[0].meta["segments"]) == 20
    assert all(value is not None and math.isfinite(value) for value in found.values())
    assert seconds < 60


def test_order_and_company_change_nothing(
    chats: list[Dialogue], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*chats, *(one for one, _ in awkward().values())]
    made = FlowEval(str(small), w=0.5)
    expected = table(made.score(asked))
    monkeypatch.setattr("dialeval.metrics.registry.CHUNK_DIALOGUES", 3)
    monkeypatch.setattr("dialeval.models.consensus._QUERIES", 2)
    for order in (asked[::-1], asked[5:] + asked[:5]):
        found = table(made.score(iter(order)))
        assert found.keys() == expected.keys()
        for key, value in found.items():
            assert value == (None if expected[key] is None else pytest.approx(expected[key], abs=1e-5))
    alone = table(made.score([asked[2]]))
    assert alone == {key: pytest.approx(expected[key], abs=1e-5) for key in alone}


def test_the_signature_names_what_computes(small: Path, people: list[Dialogue], tmp_path: Path) -> None:
    fields = dict(signature_of(FlowEval("examples", **CLAUSES)).fields)
    corpus, _ = open_corpus("examples", Description(**CLAUSES))
    assert fields["corpus"] == f"examples@{corpus.index.sha[:12]}"
    assert Encoder.load().sha[:12] in fields["encoder"]
    for name, model in (("acts", SegmentActs.load()), ("actbert", ActBert.load())):
        assert fields[name].endswith(model.sha[1:12])
    assert (fields["ka"], fields["kc"], fields["h"], fields["splitter"]) == ("40", "10", "1", "punkt+comma")
    mine = dict(signature_of(FlowEval(str(small))).fields)["corpus"]
    assert mine == f"small@{open_corpus(str(small), Description())[0].index.sha[:12]}"
    index_to(people[:11], tmp_path / "small")
    other = dict(signature_of(FlowEval(str(tmp_path / "small"))).fields)["corpus"]
    assert other != mine
    assert str(signature_of(FlowEval(str(tmp_path / "small")))).count(str(tmp_path)) == 0
    assert set(dict(signature_of(ConsensusBertScore("examples")).fields)) >= {"corpus", "encoder", "k", "idf"}


def test_scores_by_the_bundled_corpus_say_so(chats: list[Dialogue], small: Path) -> None:
    for made in (FlowEval("examples"), FlowEvalSeg("examples"), ConsensusBertScore("examples")):
        assert {row.note for row in made.score(chats[:2])} == {NOTE}
    assert {row.note for row in FlowEval(str(small)).score(chats[:2])} == {None}


def test_the_scale_is_that_of_the_corpus_without_the_dialogue(people: list[Dialogue], small: Path) -> None:
    """The corpus's own dialogues have 0 on average and a standard deviation of 1, in either part."""
    made = FlowEval(str(small), scale=12)
    corpus, _ = open_corpus(str(small), Description())
    tokens = [len(one) for one in corpus.states(range(len(corpus)))]
    rows = made.score([corpus.dialogue(row) for row in range(len(corpus))])
    for w, line in ((1.0, made._scale.acts), (0.0, made._scale.content)):
        alone = FlowEval(str(small), w=w, scale=12)
        values = [row.value for row in alone.score(people[:12]) if row.dimension == "overall"]
        assert abs(sum(values)) / 12 < 0.2  # type: ignore[arg-type]
        assert line.spread > 0
    assert len(tokens) == 12
    assert str(made._scale) in str(rows.signatures["floweval"])


def test_the_scale_is_kept_for_other_processes(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = FlowEval(str(small), scale=11)._scale
    monkeypatch.setattr("dialeval.metrics.floweval.FlowEval._compare", lambda *_: pytest.fail("again"))
    assert FlowEval(str(small), scale=11)._scale == first


@pytest.mark.parametrize("options", ["scale=-1", "ka=0,kc=0", "ka=-1", "kc=-1", "w=-0.1", "w=1.5", "w=nan"])
def test_bad_numbers(options: str) -> None:
    with pytest.raises(UsageError, match=options.partition("=")[0]):
        build(f"floweval:{options}")


def test_bad_names(chats: list[Dialogue], people: list[Dialogue], tmp_path: Path) -> None:
    index_to(people[:2], tmp_path / "plain", plain=True)
    for made, message in (
        (FlowEval("no-such-corpus"), "no corpus 'no-such-corpus'"),
        (FlowEval(str(tmp_path / "plain")), "was not built for these models"),
        (FlowEval("examples", h=9), "has no layer 9"),
        (FlowEval("examples", l=9), "has no layer 9"),
        (FlowEval("examples", acts="nothing"), "no artefact called 'nothing'"),
        (FlowEval("examples", actbert="nothing"), "no artefact called 'nothing'"),
        (FlowEval("examples", encoder="nothing"), "no artefact called 'nothing'"),
    ):
        with pytest.raises(UsageError, match=message):
            made.score(chats[:1])
        assert str(signature_of(made)).startswith("floweval.v2|corpus:")


def test_annotated_acts_are_used(small: Path) -> None:
    """Swap the acts of a dialogue: its score by acts changes, that by content does not."""
    said = [("A", "Hello there."), ("B", "Where do you live?"), ("A", "In Oslo."), ("B", "I see.")]
    real = ["greeting", "question", "inform", "backchannel-success"]
    odd = ["thanking", "goodbye", "apology", "check-understanding"]

    def acted(acts: list[str]) -> Dialogue:
        segments = [[{"text": text, "act": act}] for (_, text), act in zip(said, acts, strict=True)]
        return dialogue([Turn(*one, {"segments": cut}) for one, cut in zip(said, segments, strict=True)], "d")

    one, other = (
        FlowEval(str(small), ka=12, kc=0, w=0.0).explain([acted(acts)])[0].parts for acts in (real, odd)
    )
    assert one["content"] == pytest.approx(other["content"], abs=1e-6)
    best = [FlowEvalSeg(str(small)).explain([acted(acts)])[0].value for acts in (real, odd)]
    assert best[0] > best[1]  # type: ignore[operator]
