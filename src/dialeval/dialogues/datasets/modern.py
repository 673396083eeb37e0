"""Dialogues of recent systems with human ratings or verified outcomes.

**ABC-Eval**: four chatbots of 2022; two people labelled every reply with the nine behaviours it shows. Here
higher is better, so a fault becomes `no-<behaviour>`, 1 where the rater does not see it, and `few-faults` is
minus the number of faults. Labels of ChatGPT and specialised models are in `peer_scores`, by behaviour.

**CRSArena-Eval**: people talking to nine conversational recommenders. Crowd workers' ratings are published
as aggregates, so the only source is `human:crowd`. The system is the id without its last part.

**mtRAG**, human evaluation: the last reply of a conversation, by two models and by the authors, written from
passages, which are the dialogue's evidence. Raters are known; each gave five ratings.

**STC-3**: customers and helpdesks on Weibo, translated, rated by nineteen people: accomplishment (A),
satisfaction (S) and effectiveness (E), from -2 to 2. `human:2` is the second rater of a dialogue.
Consecutive messages of a sender are one turn.

**MRBench**: replies of seven language models and of people to a student's mistake, four labels each: Yes 1,
To some extent 0.5, No 0. `overall` is their mean. Only the last turn, the reply, is scored.

**tau-bench**, retail: eleven agents with tools, 115 tasks each, talking to a simulated user. `success` is the
verified outcome (the state of the database), so its source, `human:outcome`, is not a person. GPT-4o's
ratings of replies, three dimensions from 1 to 5, are in `peer_scores`, for six agents.

**DiaHalu**: dialogues between two sides that ChatGPT or GPT-4 wrote, labelled as a whole for hallucination.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import cycle
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
        texts = (text for exchange in exchanges for text in (exchange.user, exchange.system))
        turns = zip(cycle(("user", "assistant")), texts, strict=False)
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
                        row = _avoided(behaviour, label)
                        yield Score(f"abceval-{name}", 2 * place + 1, None, source, *row)


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
    data = load(original(folder, "reference_subset_with_human_evaluations.json"), _Mtrag)
    return data, {task.task_id: task for task in data.tasks}


def _read_mtrag(folder: Path, part: Part) -> Iterator[Dialogue]:
    data, tasks = _mtrag(folder)
    passages = {document.document_id: document.text.strip() for document in data.documents}
    for evaluation in data.evaluations:
        task = tasks[evaluation.task_id]
        turns = [("user" if turn["speaker"] == "user" else "assistant", turn["text"]) for turn in task.input]
        last = len(turns)
        written = [] if evaluation.model_id == "reference" else [target["text"] for target in task.targets]
        yield dialogue(
            [*turns, ("assistant", evaluation.model_response)],
            evaluation.id,
            system=evaluation.model_id,
            references={last: written} if written else {},
            evidence=[passages[key] for context in task.contexts if (key := context.document_id) in passages],
            meta={"scored": [last], "conversation": evaluation.task_id.partition("<::>")[0]},
        )


def _rate_mtrag(folder: Path) -> Iterator[Score]:
    data, tasks = _mtrag(folder)
    for evaluation in data.evaluations:
        turn = len(tasks[evaluation.task_id].input)
        for dimension in _MTRAG_RATED:
            for rater, annotation in evaluation.annotations.get(dimension, {}).items():
                cell = rating(annotation["value"])
                yield Score(evaluation.id, turn, evaluation.model_id, f"human:{rater}", dimension, *cell)


def _peers_mtrag(folder: Path) -> Iterator[Score]:
    data, tasks = _mtrag(folder)
    for evaluation in data.evaluations:
        turn = len(tasks[evaluation.task_id].input)
        for source, annotations in evaluation.annotations.items():
            if source not in _MTRAG_RATED:
                for annotation in annotations.values():
                    cell = rating(annotation["value"])
                    yield Score(evaluation.id, turn, evaluation.model_id, source.lower(), "peer", *cell)


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
        ratings = {
            name: [labels.quality.get(key) for labels in chat.annotations] for key, name in _STC3.items()
        }
        yield from by_position(f"stc3-{chat.id}", None, None, ratings)


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


def _split_turns(text: str, prefix: re.Pattern[str], roles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the turns of a transcript, each after a prefix whose first group is a key of `roles`."""
    _, *pieces = prefix.split(text)
    return [(roles[name], words.strip()) for name, words in zip(pieces[::2], pieces[1::2], strict=True)]


def _tutorings(folder: Path) -> Iterator[tuple[str, str, list[tuple[str, str]], _TutorReply]]:
    """Yield id, tutor, the turns before the reply, and the reply."""
    roles = {"Tutor": "assistant", "Student": "user"}
    for tutoring in load(original(folder, "mrbench_v3_devset.json"), list[_Tutoring]):
        turns = _split_turns(tutoring.conversation_history, _TUTOR_OR_STUDENT, roles)
        for tutor, reply in tutoring.tutor_responses.items():
            yield f"mrbench-{tutoring.conversation_id}-{tutor}", tutor, turns, reply


def _read_mrbench(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, tutor, turns, reply in _tutorings(folder):
        conversation = id.removeprefix("mrbench-").removesuffix(f"-{tutor}")
        meta = {"scored": [len(turns)], "conversation": conversation}
        yield dialogue([*turns, ("assistant", reply.response)], id, system=tutor, meta=meta)


def _rate_mrbench(folder: Path) -> Iterator[Score]:
    for id, tutor, turns, reply in _tutorings(folder):
        values = {name: _MRBENCH[word] for name, word in reply.annotation.items()}
        for name, value in [*values.items(), ("overall", fmean(values.values()))]:
            dimension = name.replace("_", "-").lower()
            yield Score(id, len(turns), tutor, "human:gold", dimension, value)


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
        raise DataError("no agents' results", file=folder, fix="put the files *-retail.json here")
    for path in paths:
        for record in load(path, list[dict[str, Any]]):
            agent = _agent(path.name)
            yield f"tau-retail-{agent}-{record['task_id']}", agent, record


def _read_tau(folder: Path, part: Part) -> Iterator[Dialogue]:
    for id, agent, record in _trajectories(folder):
        chosen = {key: record[key] for key in ("traj", "task_id", "reward")}
        (parsed,), _ = parse_record(chosen, None, folder, 0)
        meta = {key: value for key, value in parsed.meta.items() if key != "reward"}
        yield msgspec.structs.replace(parsed, id=id, system=agent, meta=meta)


def _rate_tau(folder: Path) -> Iterator[Score]:
    for id, agent, record in _trajectories(folder):
        yield Score(id, None, agent, "human:outcome", "success", float(record["reward"]))


def _peers_tau(folder: Path) -> Iterator[Score]:
    for _, judged in load_lines(original(folder, "judge_gpt4o.jsonl"), _Judged):
        agent = _agent(judged.file)
        id = f"tau-retail-{agent}-{judged.task_id}"
        yield Score(id, judged.turn, agent, "gpt-4o", judged.dimension.replace("_", "-"), judged.value)


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
    for record in _diahalu(folder):
        turns = _split_turns(record.text, _SIDE, roles)
        meta = {"domain": record.domain, "hallucination": record.kind, "explanation": record.why}
        yield dialogue(turns, f"diahalu-{record.id}", system=record.model, meta=meta)


def _rate_diahalu(folder: Path) -> Iterator[Score]:
    for record in _diahalu(folder):
        value = 1.0 - float(record.label)
        yield Score(f"diahalu-{record.id}", None, record.model, "human:gold", "no-hallucination", value)


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
