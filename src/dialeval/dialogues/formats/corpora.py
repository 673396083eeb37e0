"""Chats as public corpora hold them.

ChatGPT's export, OASST trees and messages, Chatbot Arena pairs (two dialogues and a vote), WildChat and
LMSYS-Chat, UltraChat, ConvLab, ParlAI.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn
from dialeval.dialogues.formats.chats import plain_message
from dialeval.dialogues.formats.messages import parse_message, role
from dialeval.dialogues.formats.records import (
    Joined,
    Lost,
    Record,
    RecordShape,
    assemble,
    branch,
    first_of,
    found,
    has_items,
    has_list,
    items_of,
    kept_of,
    parse_messages,
    turns_in,
)
from dialeval.dialogues.formats.values import decoded


def _from_convlab(record: Record) -> Dialogue:
    turns = []
    for item in items_of(record, "turns"):
        meta = {k: v for k, v in item.items() if k not in ("speaker", "utterance", "utt_idx")}
        speaker = "assistant" if str(item.get("speaker")).lower() == "system" else role(item.get("speaker"))
        turns.append(clean_turn(speaker, item.get("utterance"), meta))
    return assemble(record, "turns", turns)


def _from_parlai(record: Record) -> Dialogue:
    acts = [act for exchange in items_of(record, "dialog") for act in exchange]
    names = [str(act.get("id", "unknown")) for act in acts]
    people = {
        name for name in names if any(word in name.lower() for word in ("human", "user", "worker", "turker"))
    }
    roles = {name: name for name in names}
    if people and len(set(names)) == 2:
        roles = {name: "user" if name in people else "assistant" for name in names}
    turns = []
    for name, act in zip(names, acts, strict=True):
        meta = {k: v for k, v in act.items() if k not in ("id", "text", "episode_done")}
        turns.append(clean_turn(role(roles[name]), act.get("text"), meta))
    return assemble(record, "dialog", turns)


# ChatGPT's export: a tree of messages, of which the path to the current node is what was seen last


def _from_chatgpt(record: Record) -> Dialogue:
    nodes = record["mapping"]
    if not isinstance(nodes, Mapping):
        raise TypeError("mapping is no object")
    at = record.get("current_node") or next(
        (key for key, node in nodes.items() if not node.get("children")), None
    )
    path = branch(nodes, "parent", at)
    cut = bool(path) and path[0].get("parent") in nodes
    notes = ["a cycle among its messages was cut"] if cut else []
    messages = [node.get("message") for node in path]
    turns = [
        turn for number, one in enumerate(messages) if _is_seen(one) for turn in _chatgpt_turns(one, number)
    ]
    known = (node.get("message") for node in nodes.values())
    others = sum(map(_is_seen, known)) - sum(map(_is_seen, messages))
    if others:
        notes.append("other branches left out")
    kept = kept_of(record, "title", "create_time", "default_model_slug")
    name = first_of(record, "conversation_id", "id")
    model = next((turn.model for turn in reversed(turns) if turn.model), None)
    return assemble(
        {"id": name, "model": model, **kept, **({"note": "; ".join(notes)} if notes else {})}, "", turns
    )


_CHATGPT = ("parts", "text", "result")  # what was said, code, what a tool found


def _is_seen(message: Any) -> bool:
    if not isinstance(message, Mapping):
        return False
    about = message.get("metadata") if isinstance(message.get("metadata"), Mapping) else {}
    hidden = (about or {}).get("is_visually_hidden_from_conversation") or message.get("weight") == 0
    content = message.get("content")
    if isinstance(message.get("fragments"), list):  # DeepSeek
        return any(isinstance(one, Mapping) and one.get("type") in _FRAGMENTS for one in message["fragments"])
    return not hidden and isinstance(content, Mapping) and bool(found(content, *_CHATGPT))


_FRAGMENTS = {"REQUEST": "user", "RESPONSE": "assistant"}


def _chatgpt_turns(message: Mapping[str, Any], number: int) -> list[Turn]:
    if "fragments" in message:
        known = {"model": message.get("model"), "created_at": message.get("inserted_at")}
        said = [one for one in message["fragments"] if isinstance(one, Mapping)]
        sides = ((_FRAGMENTS.get(str(one.get("type"))), one.get("content")) for one in said)
        made = [{"role": side, "content": text, **known} for side, text in sides if side]
        return [turn for one in made for turn in parse_message(one, number)]
    content, about = message["content"], message.get("metadata") or {}
    plain = plain_message(message) or {}
    held = found(content, *_CHATGPT)
    parts = held if isinstance(held, list) else [held]
    plain["content"] = "\n".join(parts) if all(isinstance(part, str) for part in parts) else parts
    kept = kept_of(plain, "role", "content", "create_time")
    kept["model"] = about.get("model_slug")
    finish = about.get("finish_details")
    kept["finish_reason"] = finish.get("type") if isinstance(finish, Mapping) else None
    if plain.get("role") == "assistant" and message.get("recipient") not in (None, "all"):
        call = {"name": message["recipient"], "arguments": kept["content"], "id": message.get("id")}
        kept |= {"content": None, "tool_calls": [call]}
    elif plain.get("role") == "tool":
        kept["name"] = (message.get("author") or {}).get("name")
    return parse_message(
        {key: value for key, value in kept.items() if value is not None or key == "content"}, number
    )


# OASST: trees of prompts and replies; every path from the root to a leaf is a dialogue


def _from_tree(record: Record) -> list[Dialogue]:
    root = record["prompt"]
    name = str(first_of(record, "message_tree_id") or root.get("message_id") or "")
    made: list[Dialogue] = []
    stack: list[tuple[Mapping[str, Any], tuple[Turn, ...], frozenset[Any]]] = [(root, (), frozenset())]
    while stack:
        node, before, above = stack.pop()
        turns = (*before, _tree_turn(node))
        replies = [one for one in node.get("replies") or () if isinstance(one, Mapping)]
        known = above | {node.get("message_id")}
        fresh = [
            one for one in replies if one.get("message_id") is None or one.get("message_id") not in known
        ]
        stack += [(one, turns, known) for one in reversed(fresh)]
        if not fresh:
            cut = {"note": "a cycle in its tree was cut"} if replies else {}
            made.append(
                assemble({"id": _leaf_name(name, node, len(made)), "tree": name, **cut}, "", list(turns))
            )
    return made


def _leaf_name(tree: str, node: Mapping[str, Any], number: int) -> str:
    leaf = str(node.get("message_id") or number)
    return f"{tree}-{leaf}" if tree and leaf != tree else leaf or tree


def _tree_turn(node: Mapping[str, Any]) -> Turn:
    used = ("role", "text", "replies", "lang", "model_name", "created_date", "parent_id", "message_tree_id")
    meta = {key: value for key, value in node.items() if key not in used and value not in (None, {}, [])}
    made = clean_turn(role(node.get("role") or "unknown"), node.get("text"), meta)
    known = {"language": node.get("lang"), "model": node.get("model_name"), "time": node.get("created_date")}
    return msgspec.structs.replace(
        made, **{key: value for key, value in known.items() if isinstance(value, str)}
    )


def _join_trees(records: Iterable[tuple[int, Record]], lost: Lost) -> Joined:
    """Build the trees of messages that name their parents; what hangs in the air is counted."""
    nodes: dict[str, tuple[int, Record]] = {}
    children: dict[str, list[str]] = defaultdict(list)
    roots = []
    for number, raw in records:
        record = _tweet(raw) if "tweet_id" in raw else raw
        name = str(record.get("message_id") or "")
        if not name or name in nodes:
            lost(number, "a message without an id" if not name else f"the message {name} stands there twice")
            continue
        nodes[name] = number, record
        parent = record.get("parent_id")
        if parent:
            children[str(parent)].append(name)
        else:
            roots.append(name)
    reached: set[str] = set()
    for root in roots:
        tree = str(nodes[root][1].get("message_tree_id") or root)
        stack: list[tuple[str, tuple[Turn, ...]]] = [(root, ())]
        while stack:
            name, before = stack.pop()
            reached.add(name)
            turns = (*before, _tree_turn(nodes[name][1]))
            below = [one for one in children[name] if one not in reached]
            stack += [(one, turns) for one in reversed(below)]
            if not below:
                known = assemble({"id": _leaf_name(tree, nodes[name][1], 0), "tree": tree}, "", list(turns))
                yield nodes[name][0], known
    for name, (number, record) in nodes.items():
        if name not in reached:
            there = str(record.get("parent_id")) in nodes
            lost(
                number,
                "in a cycle, or below one" if there else f"its parent {record.get('parent_id')} is missing",
            )


def _tweet(row: Record) -> Record:
    """Return a row of the tweets to customer support as such a message."""
    asks = str(row.get("inbound")).lower() == "true"
    known = {"message_id": row.get("tweet_id"), "parent_id": row.get("in_response_to_tweet_id")}
    side = {"role": "user" if asks else "assistant", "created_date": row.get("created_at")}
    return known | side | {"text": row.get("text")}


# Arena pairs: the same question to two systems, and a vote


def _sides_of(record: Record) -> tuple[str, str] | None:
    """Return how the two sides of a pair are called, which is what their names end in."""
    for two in (("_a", "_b"), ("_0", "_1"), ("1", "2")):
        if all(f"conversation{one}" in record or f"response{one}" in record for one in two):
            return two
    return None


def _from_pair(record: Record) -> list[Dialogue]:
    name = str(first_of(record, "question_id", "conversation_id", "id") or "")
    winner = str(record.get("winner") or next((side for side in _VOTES if record.get(side)), "")).lower()
    winner = winner.removeprefix("winner_")
    sides = _sides_of(record) or ("_a", "_b")
    chosen = first_of(record, "better_response_id", "overall_preference")
    if chosen is not None:  # PKU-SafeRLHF; HelpSteer3, where a number below 0 is for the first
        first = chosen < 0 if "overall_preference" in record else str(chosen) == sides[0][-1]
        tie = "overall_preference" in record and not chosen
        winner = "tie" if tie else "model_a" if first else "model_b"
    about = {"pair": name, "winner": winner, **kept_of(record, "judge", "turn", "language", "tstamp")}
    made = []
    for side, ending in zip("ab", sides, strict=True):
        won = {f"model_{side}": 1.0, side: 1.0}.get(winner, 0.5 if "tie" in winner else 0.0)
        given = {"preferred": won} if winner else {}
        identity = {"id": f"{name}-{side}" if name else "", "model": record.get(f"model_{side}")}
        rest = {key: value for key, value in about.items() if value != ""}
        made.append(assemble({**identity, **rest}, "", _side(record, ending), feedback=given))
    return made


_VOTES = ("winner_model_a", "winner_model_b", "winner_tie")


def _side(record: Record, side: str) -> list[Turn]:
    """Return one side of a pair: its messages, or its answers to the prompts that both were given."""
    if f"conversation{side}" in record:
        return parse_messages(items_of(record, f"conversation{side}"))
    asked, answers = decoded(first_of(record, "prompt", "context")), decoded(record[f"response{side}"])
    if isinstance(asked, list) and isinstance(answers, list) and not turns_in(asked)[1:]:
        both = zip(asked, answers, strict=False)
        return [
            clean_turn(who, text)
            for pair in both
            for who, text in zip(("user", "assistant"), pair, strict=True)
        ]
    return [*turns_in(asked, "user"), *turns_in(answers, "assistant")]


SHAPES = (
    RecordShape(
        "chatgpt",
        "ChatGPT's export: mapping of messages and current_node",
        ("mapping", "current_node"),
        lambda record: isinstance(record.get("mapping"), Mapping),
        _from_chatgpt,
    ),
    RecordShape(
        "oasst",
        "OASST trees: prompt with replies",
        ("message_tree_id", "prompt", "replies"),
        lambda record: isinstance(record.get("prompt"), Mapping) and "text" in record["prompt"],
        _from_tree,
    ),
    RecordShape(
        "oasst-messages",
        "OASST messages: one a record, joined by parent_id",
        ("message_id", "parent_id", "message_tree_id"),
        lambda record: (
            "text" in record
            and ({"message_id", "parent_id"} <= {*record} or {"tweet_id", "inbound"} <= {*record})
        ),
        join=_join_trees,
    ),
    RecordShape(
        "arena",
        "Chatbot Arena pairs: two dialogues and a vote",
        ("conversation_a", "conversation_b", "winner"),
        _sides_of,
        _from_pair,
    ),
    RecordShape(
        "lmsys",
        "WildChat and LMSYS-Chat: conversation with role and content, and its model",
        ("conversation", "conversation_hash", "conversation_id", "openai_moderation"),
        lambda record: has_items(record, "conversation", "role", "content") and "model" in record,
        lambda record: assemble(record, "conversation", parse_messages(items_of(record, "conversation"))),
    ),
    RecordShape(
        "ultrachat",
        "UltraChat: data is a list of texts, user and assistant in turn",
        ("data",),
        lambda record: _texts(record.get("data")),
        lambda record: assemble(
            record,
            "data",
            [clean_turn(("user", "assistant")[n % 2], text) for n, text in enumerate(record["data"])],
        ),
    ),
    RecordShape(
        "convlab",
        "ConvLab unified: turns with speaker and utterance",
        ("turns",),
        lambda record: has_list(record, "turns", "speaker", "utterance"),
        _from_convlab,
        column=True,
    ),
    RecordShape(
        "parlai",
        "ParlAI conversations: dialog with id and text",
        ("dialog",),
        lambda record: isinstance(record.get("dialog"), list),
        _from_parlai,
        column=True,
    ),
)


def _texts(found: object) -> bool:
    return isinstance(found, list) and len(found) > 1 and all(isinstance(one, str) for one in found)
