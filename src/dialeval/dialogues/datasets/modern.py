"""Dialogues of systems of today, and what people (or a verified outcome) said of them.

**ABC-Eval**: four chatbots of 2022; two people say of every reply which of nine behaviours it shows. Here
higher is better, so a fault becomes `no-<behaviour>`, 1 where the rater does not see it, and `few-faults` is
minus the number of faults. What ChatGPT and specialised models said is in `peer_scores`, by behaviour.

**CRSArena-Eval**: people talking to nine conversational recommenders. Crowd workers' ratings are published
as aggregates, so the one source is `human:crowd`. The system is the id without its last part.

**mtRAG**, human evaluation: the last reply of a conversation, by two models and by the authors, written from
passages, which are the dialogue's evidence. Raters are known; each gave five ratings.

**STC-3**: customers and helpdesks on Weibo, translated, rated by nineteen people: accomplishment (A),
satisfaction (S) and effectiveness (E), from -2 to 2. `human:2` is whoever comes second for this dialogue.
What a sender says in a row is one turn.

**MRBench**: replies of seven language models and of people to a student's mistake, four labels each: Yes 1,
To some extent 0.5, No 0. `overall` is their mean. Only the last turn, the reply, is scored.

**tau-bench**, retail: eleven agents with tools, 115 tasks each, talking to a simulated user. `success` is the
verified outcome (the state of the data base), so its source, `human:outcome`, is no person. What GPT-4o said
of replies, three dimensions from 1 to 5, is in `peer_scores`, for six agents.

**DiaHalu**: dialogues between two sides that ChatGPT or GPT-4 wrote, labelled as a whole for hallucination.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from dialeval.dialogues.datasets.publicset import GoldDimension, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import Cell, by_position, load, load_lines, original, rating
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.dialogues.formats.shapes import parse_record
from dialeval.errors import DataError
from dialeval.scores import Score

# ABC-Eval


class _Behaviour(msgspec.Struct):
    human: list[int]
    gpt: int | None = None
    specialized: int | None = None


class _RatedExchange(msgspec.Struct):
    user: str
    system: str
    behaviors: dict[str, _Behaviour]


_GOOD_BEHAVIOUR = "empathetic"


def _abceval(folder: Path) -> dict[str, list[_RatedExchange]]:
    return load(original(folder, "behavior-classification-results.json"), dict[str, list[_RatedExchange]])


def _read_abceval(folder: Path, part: Part) -> Iterator[Dialogue]:
    for name, exchanges in _abceval(folder).items():
        turns = [pair for one in exchanges for pair in (("user", one.user), ("assistant", one.system))]
        yield dialogue(turns, f"abceval-{name}", system=name.partition("_")[2])


def _rate_abceval(folder: Path) -> Iterator[Score]:
    for name, exchanges in _abceval(folder).items():
        id, system = f"abceval-{name}", name.partition("_")[2]
        for place, exchange in enumerate(exchanges):
            turn, faults = 2 * place + 1, [0, 0]
            for behaviour, labels in exchange.behaviors.items():
                for rater, label in enumerate(labels.human[:2]):
                    if behaviour != _GOOD_BEHAVIOUR:
                        faults[rater] += label
                    yield Score(id, turn, system, f"human:{rater + 1}", *_avoided(behaviour, label))
            for rater, count in enumerate(faults):
                yield Score(id, turn, system, f"human:{rater + 1}", "few-faults", float(-count))


def _peers_abceval(folder: Path) -> Iterator[Score]:
    for name, exchanges in _abceval(folder).items():
        for place, exchange in enumerate(exchanges):
            for behaviour, labels in exchange.behaviors.items():
                for source, label in (("chatgpt", labels.gpt), ("specialised", labels.specialized)):
                    if label is not None:
                        told = _avoided(behaviour, label)
                        yield Score(f"abceval-{name}", 2 * place + 1, None, source, *told)


def _avoided(behaviour: str, label: int) -> tuple[str, float]:
    """Return dimension and value of a label, so that higher is better."""
    dimension = behaviour.replace(" ", "-")
    return (dimension, float(label)) if behaviour == _GOOD_BEHAVIOUR else (f"no-{dimension}", 1.0 - label)


# CRSArena


class _CrsTurn(msgspec.Struct):
    role: str
    utterance: str | None = None
    ratings: dict[str, Cell] = msgspec.field(name="turn_level_aggregated", default_factory=dict)


class _CrsChat(msgspec.Struct):
    conv_id: str
    dialogue: list[_CrsTurn]
    ratings: dict[str, Cell] = msgspec.field(name="dial_level_aggregated", default_factory=dict)

    @property
    def system(self) -> str:
        return self.conv_id.rpartition("_")[0]


def _crsarena(folder: Path) -> list[_CrsChat]:
    return load(original(folder, "crs_arena_eval.json"), list[_CrsChat])


def _read_crsarena(folder: Path, part: Part) -> Iterator[Dialogue]:
    roles = {"USER": "user", "ASST": "assistant"}
    for chat in _crsarena(folder):
        turns = [(roles.get(turn.role, turn.role), turn.utterance) for turn in chat.dialogue]
        yield dialogue(turns, f"crsarena-{chat.conv_id}", system=chat.system)


def _rate_crsarena(folder: Path) -> Iterator[Score]:
    for chat in _crsarena(folder):
        rated = [(place, turn.ratings) for place, turn in enumerate(chat.dialogue)]
        for place, ratings in [*rated, (None, chat.ratings)]:
            for name, cell in ratings.items():
                dimension = "overall" if name == "dialogue_overall" else name.replace("_", "-")
                id = f"crsarena-{chat.conv_id}"
                yield Score(id, place, chat.system, "human:crowd", dimension, *rating(cell))


# mtRAG


class _Passage(msgspec.Struct):
    document_id: str
    text: str = ""
    title: str | None = None


class _Task(msgspec.Struct):
    task_id: str
    input: list[dict[str, Any]]
    contexts: list[_Passage]
    targets: list[dict[str, Any]] = []


class _Evaluation(msgspec.Struct):
    task_id: str
    model_id: str
    model_response: str
    annotations: dict[str, dict[str, dict[str, Any]]]

    @property
    def id(self) -> str:
        return f"mtrag-{self.task_id}-{self.model_id}"


class _Mtrag(msgspec.Struct):
    documents: list[_Passage]
    tasks: list[_Task]
    evaluations: list[_Evaluation]


_MTRAG_RATED = ("naturalness", "appropriateness", "completeness", "faithfulness", "win-rate")


def _mtrag(folder: Path) -> tuple[_Mtrag, dict[str, _Task]]:
    found = load(original(folder, "reference_subset_with_human_evaluations.json"), _Mtrag)
    return found, {task.task_id: task for task in found.tasks}


def _read_mtrag(folder: Path, part: Part) -> Iterator[Dialogue]:
    found, tasks = _mtrag(folder)
    passages = {one.document_id: one.text.strip() for one in found.documents}
    for evaluation in found.evaluations:
        task = tasks[evaluation.task_id]
        turns = [("user" if one["speaker"] == "user" else "assistant", one["text"]) for one in task.input]
        last = len(turns)
        written = [] if evaluation.model_id == "reference" else [one["text"] for one in task.targets]
        yield dialogue(
            [*turns, ("assistant", evaluation.model_response)],
            evaluation.id,
            system=evaluation.model_id,
            references={last: written} if written else {},
            evidence=[passages[one.document_id] for one in task.contexts if one.document_id in passages],
            meta={"scored": [last], "conversation": evaluation.task_id.partition("<::>")[0]},
        )


def _rate_mtrag(folder: Path) -> Iterator[Score]:
    found, tasks = _mtrag(folder)
    for one in found.evaluations:
        turn = len(tasks[one.task_id].input)
        for dimension in _MTRAG_RATED:
            for rater, given in one.annotations.get(dimension, {}).items():
                yield Score(one.id, turn, one.model_id, f"human:{rater}", dimension, *rating(given["value"]))


def _peers_mtrag(folder: Path) -> Iterator[Score]:
    found, tasks = _mtrag(folder)
    for one in found.evaluations:
        turn = len(tasks[one.task_id].input)
        for source, given in one.annotations.items():
            if source not in _MTRAG_RATED:
                for cell in given.values():
                    yield Score(one.id, turn, one.model_id, source.lower(), "peer", *rating(cell["value"]))


# STC-3


class _Stc3Turn(msgspec.Struct):
    sender: str
    utterances: list[str]


class _Stc3Labels(msgspec.Struct):
    quality: dict[str, Cell]
    nugget: list[str] = []


class _Stc3Chat(msgspec.Struct):
    id: str
    turns: list[_Stc3Turn]
    annotations: list[_Stc3Labels] = []


_STC3 = {"A": "accomplishment", "S": "satisfaction", "E": "effectiveness"}


def _stc3(folder: Path) -> list[_Stc3Chat]:
    return load(original(folder, "train_data_en.json"), list[_Stc3Chat])


def _read_stc3(folder: Path, part: Part) -> Iterator[Dialogue]:
    roles = {"customer": "user", "helpdesk": "assistant"}
    for chat in _stc3(folder):
        turns = [(roles.get(turn.sender, turn.sender), "\n".join(turn.utterances)) for turn in chat.turns]
        yield dialogue(turns, f"stc3-{chat.id}")


def _rate_stc3(folder: Path) -> Iterator[Score]:
    for chat in _stc3(folder):
        given = {name: [one.quality.get(key) for one in chat.annotations] for key, name in _STC3.items()}
        yield from by_position(f"stc3-{chat.id}", None, None, given)


# MRBench


class _TutorReply(msgspec.Struct):
    response: str
    annotation: dict[str, str]


class _Tutoring(msgspec.Struct):
    conversation_id: str
    conversation_history: str
    tutor_responses: dict[str, _TutorReply]


_MRBENCH = {"Yes": 1.0, "To some extent": 0.5, "No": 0.0}
_TUTOR_OR_STUDENT = re.compile(r"(?:\A|\n)\s*(Tutor|Student):\s*")


def _tutorings(folder: Path) -> Iterator[tuple[str, str, list[tuple[str, str]], _TutorReply]]:
    """Yield id, tutor, the turns before the reply, and the reply."""
    roles = {"Tutor": "assistant", "Student": "user"}
    for one in load(original(folder, "mrbench_v3_devset.json"), list[_Tutoring]):
        _, *pieces = _TUTOR_OR_STUDENT.split(one.conversation_history)
        said = [(roles[who], text.strip()) for who, text in zip(pieces[::2], pieces[1::2], strict=True)]
        for tutor, reply in one.tutor_responses.items():
            yield f"mrbench-{one.conversation_id}-{tutor}", tutor, said, reply


def _read_mrbench(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, tutor, said, reply in _tutorings(folder):
        conversation = id.removeprefix("mrbench-").removesuffix(f"-{tutor}")
        meta = {"scored": [len(said)], "conversation": conversation}
        yield dialogue([*said, ("assistant", reply.response)], id, system=tutor, meta=meta)


def _rate_mrbench(folder: Path) -> Iterator[Score]:
    for id, tutor, said, reply in _tutorings(folder):
        values = {name: _MRBENCH[word] for name, word in reply.annotation.items()}
        for name, value in [*values.items(), ("overall", fmean(values.values()))]:
            dimension = name.replace("_", "-").lower()
            yield Score(id, len(said), tutor, "human:gold", dimension, value)


# tau-bench


class _Judged(msgspec.Struct):
    file: str
    task_id: int
    turn: int
    dimension: str
    value: float | None


def _agent(file: str) -> str:
    """Return the agent that a file of results is named after: strategy and model.

    >>> _agent("tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-llm_0114161231-retail.json")
    'tool-calling-gpt-4o'
    """
    return re.sub(r"-\d\.\d_range_.*", "", file)


def _trajectories(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield id, agent and record of each run."""
    paths = sorted(path for path in folder.iterdir() if re.search(r"retail\.json(\.gz)?$", path.name))
    if not paths:
        raise DataError("no results of agents", file=folder, fix="the files *-retail.json go here")
    for path in paths:
        for record in load(path, list[dict[str, Any]]):
            agent = _agent(path.name)
            yield f"tau-retail-{agent}-{record['task_id']}", agent, record


def _read_tau(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, agent, record in _trajectories(folder):
        chosen = {key: record[key] for key in ("traj", "task_id", "reward")}
        (made,), _ = parse_record(chosen, None, folder, 0)
        meta = {key: value for key, value in made.meta.items() if key != "reward"}
        yield msgspec.structs.replace(made, id=id, system=agent, meta=meta)


def _rate_tau(folder: Path) -> Iterator[Score]:
    for id, agent, record in _trajectories(folder):
        yield Score(id, None, agent, "human:outcome", "success", float(record["reward"]))


def _peers_tau(folder: Path) -> Iterator[Score]:
    for _, one in load_lines(original(folder, "judge_gpt4o.jsonl"), _Judged):
        agent = _agent(one.file)
        id = f"tau-retail-{agent}-{one.task_id}"
        yield Score(id, one.turn, agent, "gpt-4o", one.dimension.replace("_", "-"), one.value)


# DiaHalu


class _DiaHalu(msgspec.Struct):
    id: str = msgspec.field(name="ID")
    text: str = msgspec.field(name="Dialogue")
    label: str = msgspec.field(name="Label")
    kind: str = msgspec.field(name="Hallucination Type")
    domain: str = msgspec.field(name="Domain")
    why: str = msgspec.field(name="Explaination")
    model: str = msgspec.field(name="Which LLM")


_SIDE = re.compile(r"(?:\A|\n)\s*([AB])\d+:\s*")


def _diahalu(folder: Path) -> list[_DiaHalu]:
    return load(original(folder, "DiaHalu_V2.json"), list[_DiaHalu])


def _read_diahalu(folder: Path, part: Part) -> Iterator[Dialogue]:
    roles = {"A": "user", "B": "assistant"}
    for one in _diahalu(folder):
        _, *pieces = _SIDE.split(one.text)
        turns = [(roles[who], text.strip()) for who, text in zip(pieces[::2], pieces[1::2], strict=True)]
        meta = {"domain": one.domain, "hallucination": one.kind, "explanation": one.why}
        yield dialogue(turns, f"diahalu-{one.id}", system=one.model, meta=meta)


def _rate_diahalu(folder: Path) -> Iterator[Score]:
    for one in _diahalu(folder):
        value = 1.0 - float(one.label)
        yield Score(f"diahalu-{one.id}", None, one.model, "human:gold", "no-hallucination", value)


SETS = {
    "abceval": PublicSet(
        name="abceval",
        title="ABC-Eval: nine behaviours in every reply of four chatbots (Finch et al., 2023)",
        folder="abceval",
        licence="none stated",
        home="github.com/emorynlp/GPT-ABCEval",
        read=_read_abceval,
        rate=_rate_abceval,
        golds=(GoldDimension("few-faults", "turn"),),
        peers=_peers_abceval,
    ),
    "crsarena": PublicSet(
        name="crsarena",
        title="CRSArena-Eval: nine conversational recommenders, rated by crowd workers",
        folder="crsarena",
        licence="MIT",
        home="github.com/informagi/face",
        read=_read_crsarena,
        rate=_rate_crsarena,
        golds=(GoldDimension("overall", "dialogue"), GoldDimension("relevance", "turn")),
    ),
    "diahalu": PublicSet(
        name="diahalu",
        title="DiaHalu V2: hallucination in dialogues that ChatGPT and GPT-4 wrote (Chen et al., 2024)",
        folder="diahalu",
        licence="none stated",
        home="github.com/ECNU-ICALK/DiaHalu",
        read=_read_diahalu,
        rate=_rate_diahalu,
        golds=(GoldDimension("no-hallucination", "dialogue"),),
    ),
    "mrbench": PublicSet(
        name="mrbench",
        title="MRBench: tutors' replies to a mistake (Maurya et al., NAACL 2025)",
        folder="mrbench",
        licence="CC BY-SA 4.0",
        home="github.com/kaushal0494/UnifyingAITutorEvaluation",
        read=_read_mrbench,
        rate=_rate_mrbench,
        golds=(GoldDimension("overall", "turn"),),
    ),
    "mtrag": PublicSet(
        name="mtrag",
        title="mtRAG: replies from retrieved passages, human evaluation (Katsis et al., 2025)",
        folder="mtrag",
        licence="Apache-2.0",
        home="github.com/IBM/mt-rag-benchmark",
        read=_read_mtrag,
        rate=_rate_mtrag,
        golds=(GoldDimension("appropriateness", "turn"), GoldDimension("faithfulness", "turn")),
        peers=_peers_mtrag,
    ),
    "stc3": PublicSet(
        name="stc3",
        title="STC-3: customer helpdesk dialogues, nineteen raters each (Zeng et al., 2017)",
        folder="stc3",
        licence="none stated",
        home="github.com/SB233/stc3-dataset",
        read=_read_stc3,
        rate=_rate_stc3,
        golds=(GoldDimension("satisfaction", "dialogue"),),
    ),
    "tau-retail": PublicSet(
        name="tau-retail",
        title="tau-bench retail: agents with tools and a verified outcome (Yao et al., 2024)",
        folder="tau",
        licence="CC BY-NC 4.0 (results), MIT (tau-bench)",
        home="github.com/emrecanacikgoz/TD-Eval",
        read=_read_tau,
        rate=_rate_tau,
        golds=(GoldDimension("success", "dialogue"),),
        peers=_peers_tau,
    ),
}
