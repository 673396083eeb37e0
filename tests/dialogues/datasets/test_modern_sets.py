"""Public sets of today's systems: each format's traps on small files, then the real sets where they are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dialeval.dialogues import scored_turns
from dialeval.dialogues.datasets import data_folder, public_set

_LABELS = {
    "self contradiction": {"human": [1, 0], "gpt": 0, "specialized": 1},
    "empathetic": {"human": [1, 1]},
}
_MTRAG = {
    "documents": [{"document_id": "p1", "text": " A passage. "}, {"document_id": "p2", "text": "Another."}],
    "tasks": [
        {
            "task_id": "c1<::>2",
            "input": [
                {"speaker": "user", "text": "Hi"},
                {"speaker": "agent", "text": "Hello"},
                {"speaker": "user", "text": "So?"},
            ],
            "contexts": [{"document_id": "p2"}],
            "targets": [{"speaker": "agent", "text": "As written."}],
        }
    ],
    "evaluations": [
        {
            "task_id": "c1<::>2",
            "model_id": "m",
            "model_response": "Well.",
            "annotations": {
                "faithfulness": {"77": {"value": "4"}, "78": {"value": None}},
                "RougeL": {"system": {"value": 0.5}},
            },
        }
    ],
}
FILES: dict[str, tuple[str, Any]] = {
    "abceval": (
        "behavior-classification-results.json",
        {"(1,2)_my_bot": [{"user": "Hi", "system": "Bye", "behaviors": _LABELS}]},
    ),
    "crsarena": (
        "crs_arena_eval.json",
        [
            {
                "conv_id": "kbrd_redial_07f6",
                "dialogue": [
                    {"turn_ind": 0, "role": "USER", "utterance": "A film?"},
                    {"role": "ASST", "utterance": None, "turn_level_aggregated": {"relevance": 2}},
                ],
                "dial_level_aggregated": {"dialogue_overall": 3, "task_completion": 1},
            }
        ],
    ),
    "mtrag": ("reference_subset_with_human_evaluations.json", _MTRAG),
    "stc3": (
        "train_data_en.json",
        [
            {
                "id": "9",
                "turns": [
                    {"sender": "customer", "utterances": ["It broke.", "Again!"]},
                    {"sender": "helpdesk", "utterances": ["Sorry."]},
                ],
                "annotations": [{"quality": {"A": -1, "S": -2, "E": 0}, "nugget": ["CNUG0", "HNaN"]}] * 2,
            }
        ],
    ),
    "mrbench": (
        "mrbench_v3_devset.json",
        [
            {
                "conversation_id": "5-a",
                "conversation_history": "Tutor: Note: add 2. \n Student: 2 + 2\nTotal: 5 \n 5",
                "tutor_responses": {
                    "GPT4": {"response": "Look again.", "annotation": {"Mistake_Location": "To some extent"}}
                },
            }
        ],
    ),
    "tau-retail": (
        "react-m-0.0_range_0--1_user-x_1-retail.json",
        [
            {
                "task_id": 4,
                "reward": 1.0,
                "info": {"task": {"instruction": "hidden"}},
                "traj": [
                    {"role": "system", "content": "Policy."},
                    {"role": "user", "content": "Where is my order?"},
                    {
                        "role": "assistant",
                        "content": 'Thought: look\nAction: {"name": "find", "arguments": {}}',
                    },
                    {"role": "user", "content": "API output: sent"},
                    {
                        "role": "assistant",
                        "content": 'Action: {"name": "respond", "arguments": {"content": "It was sent."}}',
                    },
                ],
            }
        ],
    ),
    "diahalu": (
        "DiaHalu_V2.json",
        [
            {
                "ID": "3",
                "Dialogue": "A1: Who? \nB1: Me: B. \nA2: Sure?",
                "Label": "1",
                "Hallucination Type": "[]",
                "Domain": "Reasoning",
                "Explaination": "[]",
                "Source": "x",
                "Which LLM": "GPT4",
            }
        ],
    ),
}
DIALOGUES = {
    "abceval": ("abceval-(1,2)_my_bot", "my_bot", [("user", "Hi"), ("assistant", "Bye")], [1]),
    "crsarena": ("crsarena-kbrd_redial_07f6", "kbrd_redial", [("user", "A film?"), ("assistant", "")], [1]),
    "mtrag": (
        "mtrag-c1<::>2-m",
        "m",
        [("user", "Hi"), ("assistant", "Hello"), ("user", "So?"), ("assistant", "Well.")],
        [3],
    ),
    "stc3": ("stc3-9", None, [("user", "It broke.\nAgain!"), ("assistant", "Sorry.")], [1]),
    "mrbench": (
        "mrbench-5-a-GPT4",
        "GPT4",
        [("assistant", "Note: add 2."), ("user", "2 + 2\nTotal: 5 \n 5"), ("assistant", "Look again.")],
        [2],
    ),
    "tau-retail": (
        "tau-retail-react-m-4",
        "react-m",
        [
            ("system", "Policy."),
            ("user", "Where is my order?"),
            ("assistant", ""),
            ("tool", "sent"),
            ("assistant", "It was sent."),
        ],
        [4],
    ),
    "diahalu": ("diahalu-3", "GPT4", [("user", "Who?"), ("assistant", "Me: B."), ("user", "Sure?")], [1]),
}
RATINGS = {
    "abceval": {(1, "human:1", "few-faults", -1.0), (1, "human:2", "no-self-contradiction", 1.0)},
    "crsarena": {(1, "human:crowd", "relevance", 2.0), (None, "human:crowd", "overall", 3.0)},
    "mtrag": {(3, "human:77", "faithfulness", 4.0), (3, "human:78", "faithfulness", None)},
    "stc3": {(None, "human:2", "satisfaction", -2.0), (None, "human:1", "accomplishment", -1.0)},
    "mrbench": {(2, "human:gold", "mistake-location", 0.5), (2, "human:gold", "overall", 0.5)},
    "tau-retail": {(None, "human:outcome", "success", 1.0)},
    "diahalu": {(None, "human:gold", "no-hallucination", 0.0)},
}
COUNTS = {
    "abceval": 62,
    "crsarena": 235,
    "mtrag": 300,
    "stc3": 850,
    "mrbench": 1095,
    "diahalu": 563,
    "tau-retail": 1265,
}


@pytest.mark.parametrize("name", FILES)
def test_small_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    file, content = FILES[name]
    found = public_set(name)
    (tmp_path / found.folder).mkdir()
    (tmp_path / found.folder / file).write_text(json.dumps(content))
    (made,) = found.dialogues()
    said = [(turn.speaker, turn.text) for turn in made.turns]
    assert (made.id, made.system, said, scored_turns(made)) == DIALOGUES[name]
    rows = {(row.turn, row.source, row.dimension, row.value) for row in found.ratings()}
    assert rows >= RATINGS[name]
    if name == "mtrag":
        assert [one.text for one in made.evidence] == ["Another."]
        assert made.references == {3: ["As written."]}
    if found.peers and name != "tau-retail":
        peers = {(row.source, row.dimension, row.value) for row in found.peer_scores()}
        assert peers & {("rougel", "peer", 0.5), ("chatgpt", "no-self-contradiction", 1.0)}


@pytest.mark.parametrize("name", COUNTS)
def test_real_files(name: str) -> None:
    found = public_set(name)
    if not (data_folder() / found.folder).is_dir():
        pytest.skip(f"the set {name!r} is not in {data_folder()} (set DIALEVAL_DATA)")
    dialogues = {one.id: one for one in found.dialogues()}
    assert len(dialogues) == COUNTS[name]
    assert "reward" not in {key for one in dialogues.values() for key in one.meta}
    ratings = found.ratings()
    assert {row.dialogue_id for row in ratings} == set(dialogues)
    for gold in found.golds:
        rated = ratings.where(dimension=gold.dimension, level=gold.level)
        assert np.nanstd([row.value for row in rated if row.value is not None]) > 0
    assert all(row.turn in scored_turns(dialogues[row.dialogue_id]) for row in ratings.where(level="turn"))


def test_mtrag_peers_say_what_the_authors_say_of_them() -> None:
    """BERTScore precision against the passages goes with faithfulness (Spearman .61 on what is at hand)."""
    found = public_set("mtrag")
    if not (data_folder() / found.folder).is_dir():
        pytest.skip(f"the set 'mtrag' is not in {data_folder()} (set DIALEVAL_DATA)")
    given: dict[str, list[float]] = {}
    for row in found.ratings().where(dimension="faithfulness"):
        given.setdefault(row.dialogue_id, []).append(row.value or 0.0)
    peers = {row.dialogue_id: row.value for row in found.peer_scores().where(source="bert-kprec")}
    correlation = stats.spearmanr([np.mean(one) for one in given.values()], [peers[id] for id in given])
    assert correlation.statistic == pytest.approx(0.605, abs=0.005)
