"""Test cases and logs of evaluation tools, and a system's replies to a task-oriented test set.

deepeval (3.x, test cases and the runs it saves), ragas (0.3 samples), inspect_ai (log version 2), tau-bench
and tau2-bench results. **Predictions** for a task-oriented test set come in the common evaluation format of
MultiWOZ, `{dialogue id: [{response, state?, active_domains?}]}`: only the system's replies are in it, so a
dialogue is a sequence of assistant turns. People's files are not clean, and one bad reply is no reason to
refuse a thousand dialogues: what is not of the expected type becomes an empty turn with a note.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dialeval.dialogues.datasets.task_oriented import canonical_id
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_text, clean_turn
from dialeval.dialogues.formats.messages import parse_message
from dialeval.dialogues.formats.records import (
    Record,
    RecordShape,
    assemble,
    first_of,
    has_items,
    has_list,
    items_of,
    kept_of,
    parse_messages,
    turns_in,
)
from dialeval.dialogues.formats.values import decoded, passages, tool_calls

# deepeval

_CASES = ("testCases", "test_cases", "conversationalTestCases", "conversational_test_cases", "llmTestCases")


def _is_case(record: Record) -> bool:
    return "input" in record and ("actual_output" in record or "actualOutput" in record)


def _is_conversational_case(record: Record) -> bool:
    marks = (
        *("scenario", "chatbot_role", "chatbotRole", "expected_outcome", "expectedOutcome"),
        *("user_description", "userDescription", "metricsData", "metrics_data"),
    )
    return has_items(record, "turns", "role", "content") or (
        has_list(record, "turns") and any(key in record for key in marks)
    )


def _is_deepeval(record: Record) -> bool:
    return any(isinstance(record.get(key), list) for key in _CASES) or (
        _is_case(record) or _is_conversational_case(record)
    )


def _from_deepeval(record: Record) -> Dialogue | list[Dialogue]:
    if _is_case(record):
        return _from_case(record)
    if not any(isinstance(record.get(key), list) for key in _CASES):
        case = _from_conversational_case(record)
        return case if case.turns else []  # a golden: a scenario that nobody has played yet
    cases = [one for key in _CASES for one in record.get(key) or () if isinstance(one, dict)]
    made = [_from_case(one) if _is_case(one) else _from_conversational_case(one) for one in cases]
    return [one if one.id else msgspec.structs.replace(one, id=f"case-{n}") for n, one in enumerate(made)]


def _steps(called: Any, first: int) -> list[Turn]:
    """Return the calls of tools as turns, each with its result where that is known."""
    turns = []
    for number, (call, raw) in enumerate(zip(tool_calls(called), decoded(called) or (), strict=False), first):
        key = call.id or f"call-{number}"
        turns.append(Turn("assistant", "", tool_calls=(msgspec.structs.replace(call, id=key),)))
        if isinstance(raw, Mapping) and raw.get("output") is not None:
            result = {"role": "tool", "content": raw["output"], "tool_call_id": key, "name": call.name}
            turns += parse_message(result, number)
    return turns


def _from_case(record: Record) -> Dialogue:
    answer = first_of(record, "actual_output", "actualOutput")
    evidence = first_of(record, "retrieval_context", "retrievalContext")
    turns = [*turns_in(record["input"], "user"), *_steps(first_of(record, "tools_called", "toolsCalled"), 0)]
    reply = msgspec.structs.replace(clean_turn("assistant", answer), evidence=passages(evidence))
    turns.append(reply)
    used = ("input", "actual_output", "actualOutput", "retrieval_context", "retrievalContext", "tools_called")
    rest = {key: value for key, value in record.items() if key not in (*used, "toolsCalled")}
    rest["id"] = first_of(record, "id", "name", "identifier")
    expected = first_of(record, "expected_output", "expectedOutput")
    if isinstance(expected, str):
        rest["references"] = {str(len(turns) - 1): [expected]}
    return assemble(rest, "", turns, evidence=passages(record.get("context")))


def _from_conversational_case(record: Record) -> Dialogue:
    turns: list[Turn] = []
    for number, item in enumerate(items_of(record, "turns")):
        if _is_case(item):  # before 3.0 a turn was a test case
            turns += _from_case(item).turns
            continue
        evidence = first_of(item, "retrieval_context", "retrievalContext")
        turns += _steps(first_of(item, "tools_called", "toolsCalled"), len(turns))
        kept = {"role": item.get("role"), "content": item.get("content"), "evidence": evidence}
        turns += parse_message(kept, number)
    used = ("turns", "chatbot_role", "chatbotRole", "name")
    rest = {key: value for key, value in record.items() if key not in used}
    rest["id"] = first_of(record, "id", "name", "identifier")
    rest["instructions"] = first_of(record, "chatbot_role", "chatbotRole")
    return assemble(rest, "", turns, evidence=passages(record.get("context")))


# ragas


def _from_ragas(record: Record) -> Dialogue:
    given = decoded(record["user_input"])
    turns = parse_messages(given) if isinstance(given, list) else turns_in(given, "user")
    evidence = passages(decoded(record.get("retrieved_contexts")))
    if record.get("response") is not None:
        turns.append(
            msgspec.structs.replace(clean_turn("assistant", str(record["response"])), evidence=evidence)
        )
        evidence = ()
    used = ("user_input", "response", "retrieved_contexts")
    rest = {key: value for key, value in record.items() if key not in used}
    if isinstance(record.get("reference"), str) and turns and turns[-1].speaker == "assistant":
        rest["references"] = {str(len(turns) - 1): [rest.pop("reference")]}
    return assemble(rest, "", turns, evidence=evidence)


# inspect_ai


def _is_inspect(record: Record) -> bool:
    return (isinstance(record.get("eval"), Mapping) and "samples" in record) or _is_inspect_sample(record)


def _is_inspect_sample(record: Record) -> bool:
    return "epoch" in record and "messages" in record and ("target" in record or "output" in record)


def _from_inspect(record: Record) -> Dialogue | list[Dialogue]:
    if _is_inspect_sample(record):
        return _from_inspect_sample(record, None)
    about = record["eval"]
    model = about.get("model") if isinstance(about, Mapping) else None
    samples = record["samples"] if isinstance(record["samples"], list) else []
    return [_from_inspect_sample(one, model) for one in samples if isinstance(one, dict)]


def _from_inspect_sample(sample: Record, model: str | None) -> Dialogue:
    turns = parse_messages(sample.get("messages") or ())
    output = sample.get("output")
    if isinstance(output, Mapping) and turns and has_list(dict(output), "choices"):
        choices = output["choices"]
        reason = choices[0].get("stop_reason") if choices else None
        last = turns[-1]
        if reason and last.speaker == "assistant" and not last.finish_reason:
            turns[-1] = msgspec.structs.replace(last, finish_reason=str(reason))
        model = model or output.get("model")
    number, epoch = sample.get("id"), sample.get("epoch", 1)
    kept = kept_of(sample, "target", "scores", "metadata", "error", "limit")
    name = str(number) if epoch in (1, None) else f"{number}-epoch-{epoch}"
    return assemble({"id": name, "model": model, **kept}, "messages", turns)


# tau-bench and tau2-bench


def _is_tau(record: Record) -> bool:
    return has_list(record, "traj") and "task_id" in record


def _from_tau(record: Record) -> Dialogue:
    turns = _ended(parse_messages(_acted(items_of(record, "traj"))))
    trial = record.get("trial", 0)
    name = f"{record['task_id']}" + (f"-trial-{trial}" if trial else "")
    info = record.get("info") if isinstance(record.get("info"), Mapping) else {}
    meta = {"task_id": record["task_id"], "reward": record.get("reward"), "trial": trial}
    return assemble({"id": name, **meta, "info": info}, "traj", turns)


_SIGNAL = re.compile(r"\s*###[A-Z-]+###\s*")


def _ended(turns: list[Turn]) -> list[Turn]:
    """Take the signals of a simulated user (`###STOP###`) for what they are: it ended the dialogue there."""
    return [
        msgspec.structs.replace(turn, text=_SIGNAL.sub("", turn.text), meta={**turn.meta, "ended": True})
        if turn.speaker == "user" and _SIGNAL.search(turn.text)
        else turn
        for turn in turns
    ]


_ACTION = re.compile(r"\s*(?:Thought:(?P<thought>.*?))?\bAction:\s*(?P<action>\{.*)", re.DOTALL)


def _acted(messages: list[Any]) -> list[Any]:
    """Read the calls that ReAct agents write as text (`Action: {…}`), and what the API said to them."""
    made: list[Any] = []
    called: str | None = None
    for number, item in enumerate(messages):
        text = item.get("content") if isinstance(item, Mapping) else None
        if called and isinstance(text, str) and item.get("role") == "user" and text.startswith("API output:"):
            text = text.removeprefix("API output:").lstrip()
            made.append({"role": "tool", "content": text, "tool_call_id": called})
            called = None
            continue
        acted = _ACTION.match(text) if isinstance(text, str) and item.get("role") == "assistant" else None
        action = _leading_object(acted["action"]) if acted else None
        called = None
        if acted is None or not isinstance(action, dict) or "name" not in action:
            made.append(item)
            continue
        given = action.get("arguments")
        thought = {"reasoning": acted["thought"].strip()} if (acted["thought"] or "").strip() else {}
        if action["name"] == "respond" and isinstance(given, Mapping):
            made.append({"role": "assistant", "content": str(given.get("content", "")), **thought})
        else:
            called = f"action-{number}"
            call = {"name": action["name"], "arguments": given, "id": called}
            made.append({"role": "assistant", "content": None, "tool_calls": [call], **thought})
    return made


def _leading_object(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _is_tau2(record: Record) -> bool:
    return has_list(record, "simulations") or (
        has_list(record, "messages") and "task_id" in record and "termination_reason" in record
    )


def _from_tau2(record: Record) -> Dialogue | list[Dialogue]:
    if "simulations" not in record:
        return _from_simulation(record, None, None)
    info = record.get("info") if isinstance(record.get("info"), Mapping) else {}
    agent = (info or {}).get("agent_info")
    model = first_of(agent, "llm", "implementation") if isinstance(agent, Mapping) else None
    policy = (info or {}).get("environment_info")
    policy = policy.get("policy") if isinstance(policy, Mapping) else None
    return [_from_simulation(one, model, policy) for one in record["simulations"] if isinstance(one, dict)]


def _from_simulation(record: Record, model: str | None, policy: str | None) -> Dialogue:
    messages: list[Any] = []
    for item in record.get("messages") or ():
        held = item.get("tool_messages") if isinstance(item, Mapping) else None
        messages += held if isinstance(held, list) else [item]
    named = [
        {**one, "tool_call_id": one.get("tool_call_id") or one.get("id")}
        if isinstance(one, Mapping) and one.get("role") == "tool"
        else one
        for one in messages
    ]
    rated = record.get("reward_info")
    meta = kept_of(record, "task_id", "trial", "termination_reason", "seed")
    meta["reward"] = rated.get("reward") if isinstance(rated, Mapping) else None
    rest = {"id": record.get("id") or f"{record.get('task_id')}-{record.get('trial', 0)}", "model": model}
    return assemble({**rest, **meta, "instructions": policy}, "messages", _ended(parse_messages(named)))


# Predictions

_MULTIWOZ = re.compile(r"(?:p?mul|s?sng|woz)\d+(?:\.json)?", re.IGNORECASE)


def _is_predictions(record: Record) -> bool:
    lists = [turns for turns in record.values() if isinstance(turns, list)]
    first = [turns[0] for turns in lists if turns]
    if not lists or len(lists) < len(record) / 2:
        return False
    replies = [isinstance(one.get("response", 0), str | None) for one in first if isinstance(one, Mapping)]
    if sum(replies) * 2 > len(replies):
        return True
    named = all(map(_is_name, record)) or not first
    return len(lists) == len(record) and named and all(isinstance(one, str) for one in first)


def _is_name(key: str) -> bool:
    """Whether a key can be the id of a dialogue: those of other formats (`data`, `tags`) have no digit."""
    return any(letter.isdigit() for letter in key)


def _from_predictions(record: Record) -> list[Dialogue]:
    return [_predicted_dialogue(name, turns) for name, turns in record.items()]


def _predicted_dialogue(name: str, turns: object) -> Dialogue:
    clean = clean_text(name)[0]
    meta: dict[str, Any] = {}
    if _MULTIWOZ.fullmatch(clean) and canonical_id(clean) != clean:
        meta |= {"written_id": clean, "note": "id written in another way"}
        clean = canonical_id(clean)
    if not isinstance(turns, list):
        return Dialogue(clean, (), meta={**meta, "note": "not a list of turns"})
    return Dialogue(clean, tuple(map(_predicted_turn, turns)), meta=meta)


def _predicted_turn(item: object) -> Turn:
    if isinstance(item, str):
        return clean_turn("assistant", item)
    if not isinstance(item, Mapping):
        return Turn("assistant", "", {"note": "not an object with a response"})
    text = item.get("response")
    meta = {key: value for key, value in item.items() if key != "response"}
    if text is not None and not isinstance(text, str):
        return Turn("assistant", "", {**meta, "note": "the response is not text"})
    return clean_turn("assistant", text, meta)


SHAPES = (
    RecordShape(
        "inspect",
        "inspect_ai logs: eval and samples with messages",
        ("eval", "samples", "epoch"),
        _is_inspect,
        _from_inspect,
    ),
    RecordShape(
        "tau2",
        "tau2-bench results: simulations with messages",
        ("simulations", "termination_reason"),
        _is_tau2,
        _from_tau2,
    ),
    RecordShape(
        "tau", "tau-bench results: traj, task_id and reward", ("traj", "task_id"), _is_tau, _from_tau
    ),
    RecordShape(
        "deepeval",
        "deepeval test cases and runs: input and actual_output, or turns",
        (*_CASES, "actual_output", "actualOutput", "turns"),
        _is_deepeval,
        _from_deepeval,
    ),
    RecordShape(
        "ragas",
        "ragas samples: user_input, response, retrieved_contexts",
        ("user_input", "retrieved_contexts"),
        lambda record: "user_input" in record,
        _from_ragas,
    ),
)
PREDICTIONS = RecordShape(
    "predictions",
    "a task-oriented system's replies: {id: [{response, state, …}]}",
    (),
    _is_predictions,
    _from_predictions,
)
