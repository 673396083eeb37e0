"""Values that every log writes in its own way: times, feedback, passages, tool calls, JSON inside of text.

A key is known by its plain name (`plain_name`): `Thumbs Up`, `thumbsUp` and `thumbs-up` are one.
"""

import ast
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from dialeval.dialogues.dialogue import Passage, ToolCall, clean_text

EVIDENCE = (
    *("evidence", "retrieved_contexts", "retrieval_context", "retrieved_documents", "retrieved_docs"),
    *("documents", "source_documents", "source_nodes", "contexts", "context", "sources", "passages"),
    *("retrieved_context", "retrieved_passages", "retrieved_chunks", "retriever_resources"),
)
_THUMBS = frozenset(
    ("feedback", "score", "thumbs", "thumb", "thumbs_up", "thumbsup", "thumbs_down", "like", "liked", "vote")
)
_RATINGS = frozenset(("rating", "stars", "csat", "satisfaction", "resolved", "helpful", "nps", "preferred"))
_GOOD = frozenset(
    (
        *("up", "thumbs_up", "thumbsup", "positive", "good", "like", "liked", "helpful", "yes", "true", "+1"),
        *("👍", "satisfied"),
    )
)
_BAD = frozenset(
    (
        *("down", "thumbs_down", "thumbsdown", "negative", "bad", "dislike", "disliked", "unhelpful", "no"),
        *("false", "-1", "👎", "unsatisfied"),
    )
)
_TEXTS = (
    *("text", "page_content", "pageContent", "content", "document.content", "passage", "snippet", "chunk"),
    "document",
)
_SOURCES = (
    *("source", "title", "document.id", "document_name", "file_name", "filename", "doc_uri", "url", "uri"),
    *("id", "id_"),
)


@lru_cache(4096)
def plain_name(key: str) -> str:
    """Return a key in lower case with underscores, without accents.

    >>> plain_name("Thumbs Up"), plain_name("thumbsUp"), plain_name("Gesprächs-ID")
    ('thumbs_up', 'thumbs_up', 'gesprachs_id')
    """
    plain = unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode()
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    return re.sub(r"[^a-z0-9+]+", "_", apart.lower()).strip("_")


_NUMBER = "_?(id|uuid|sid|key|no|number|ref)"
_COLUMNS = {
    "id": (
        rf"(dialogue|dialog|conversation|conv|session|chat|thread){_NUMBER}|conversation|session|dialogue|dialog",
        rf"(ticket|contact|case|interaction){_NUMBER}|ticket",
        rf"(calls?|gesprachs?|konversations?|sitzungs?|vorgangs?|sesion|conversacion){_NUMBER}|gesprach",
        "(id|no|num|numero)_(conversation|session|chat|dialogue|conversacion|sesion|ticket)",
        "id",
    ),
    "speaker": (
        "speaker|role",
        "(speaker|sender|author|participant|actor)_(role|type|kind)",
        *("sender", "from", "author", "participant", "direction", "actor|(speaker|sender|author)_name"),
        "is_bot|from_bot|from_agent|is_agent|(is_)?inbound|incoming|is_user|is_customer|is_from_user",
        "absender|sprecher|rolle|interlocuteur|intervenant|expediteur|emetteur|auteur|remitente|emisor|rol|autor|mittente|ruolo",
    ),
    "text": (
        *("text", "content", "message", "utterance", "body", "comment", "plain_body"),
        "(message|msg|utterance|comment|turn)_(text|body|content)",
        "(text|plain|html)_body|nachricht|inhalt|texte|contenu|mensaje|texto|messaggio|testo|mensagem",
    ),
    "turn": (
        "turn|turn_id|index|position|seq|sequence",
        "(turn|message|msg|utterance|utt|seq|sequence)_(index|idx|no|num|number|order|position)",
    ),
    "system": ("system", "model", "bot"),
    "person": ("(user|customer|client|visitor|account)_?(id|uuid|name|email|phone)|email|phone",),
    "time": (
        "time|timestamp|ts|date|datetime|date_time|time_stamp",
        "(created|sent|received|posted)(_(at|on|time|date))?|(message|event|create|start)_(time|date|timestamp)",
        "(query|request|question|user|user_message|turn)_(time|timestamp|date)",
        "zeitstempel|zeit|datum|horodatage|fecha",
    ),
}
_PATTERNS = {what: tuple(map(re.compile, some)) for what, some in _COLUMNS.items()}


def named_column(names: Iterable[str], what: str, rank: int | None = None) -> str | None:
    """Return the name of a column, or key, that holds something by its usual names; the first `rank` of them.

    >>> named_column(["Sent At", "ConversationID", "SeqNo"], "id"), named_column(["foo"], "text")
    ('ConversationID', None)
    """
    plain = [(plain_name(name), name) for name in names]
    ranked = ((pattern, one) for pattern in _PATTERNS[what][:rank] for one in plain)
    return next((name for pattern, (known, name) in ranked if pattern.fullmatch(known)), None)


def decoded(found: object) -> Any:
    """Return what a text of JSON holds (exports put objects into strings); anything else as it is."""
    if isinstance(found, str) and found.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(found)
        except (ValueError, RecursionError):
            return _listed(found)
    return found


def _listed(found: str) -> Any:
    """Return the objects or texts of a list as Python prints it, which is how pandas writes one into CSV."""
    printed = re.sub(r"(?<=[}\]])\s*\n\s*(?=[{\[])", ", ", found.strip())  # numpy prints no commas
    try:
        held = ast.literal_eval(printed) if len(found) < _PRINTED else found
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return found
    plain = isinstance(held, list) and all(isinstance(one, dict) for one in held)
    return held if plain or (isinstance(held, list) and all(isinstance(one, str) for one in held)) else found


_PRINTED = 1 << 20  # characters: what is longer is no cell that somebody printed


def moment(found: object) -> str | None:
    """Return a time as ISO 8601; numbers count seconds, or milliseconds or less, since 1970.

    >>> moment(1767225600), moment(1767225600000), moment("2026-01-01 00:00")
    ('2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', '2026-01-01 00:00')
    """
    if isinstance(found, str) and found.isdigit() and len(found) >= 10:
        found = int(found)
    if isinstance(found, list) and len(found) == 2 and all(isinstance(one, int) for one in found):
        found = found[0] + found[1] / 1e9  # OpenTelemetry in JavaScript: seconds and nanoseconds
    if isinstance(found, bool) or not isinstance(found, int | float):
        return found if isinstance(found, str) and found.strip() else None
    seconds = float(found)
    while seconds > 1e11:
        seconds /= 1000
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def instant(time: str | None) -> tuple[float, str]:
    """Return what times sort by: an instant, whatever its zone and precision; what is none sorts as text.

    >>> instant("2026-01-01T00:00:00.5Z") > instant("2026-01-01T01:00:00+01:00") > instant(None)
    True
    """
    time = time and time.removesuffix(" UTC")  # as BigQuery writes it
    try:
        read = datetime.fromisoformat(time or "")
    except ValueError:
        try:
            read = parsedate_to_datetime(time or "")  # as in mails: Twilio
        except ValueError:
            return 0.0, time or ""
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp(), ""


# Feedback


@lru_cache(4096)
def feedback_name(key: str) -> str | None:
    """Return what feedback under a key is called; None if the key is none of the usual ones.

    >>> feedback_name("user-thumbs"), feedback_name("User Rating"), feedback_name("csat_score")
    ('feedback', 'rating', 'csat')
    >>> feedback_name("latency") is None
    True
    """
    name = re.sub(r"^(is|was|user|human|customer|end_user|feedback|message|chat)_(?=\w)", "", plain_name(key))
    name = re.sub(r"(_\d+(_to)?_\d+)$", "", name)  # CSAT (1-5)
    name = re.sub(r"_(score|value|rating|feedback)$", "", name)
    name = {"bewertung": "rating", "valoracion": "rating", "zufriedenheit": "satisfaction"}.get(name, name)
    if name in ("feedback", "rating") or name in _RATINGS:
        return name
    return "feedback" if name in _THUMBS and (name != "score" or key.lower() != "score") else None


def feedback_in(record: Mapping[str, Any], meta: dict[str, Any] | None = None) -> dict[str, float]:
    """Return all feedback that stands under the usual names of a record.

    >>> feedback_in({"User Rating": "4", "thumbs_down": True, "latency": 3})
    {'rating': 4.0, 'thumbs': 0.0}
    """
    found: dict[str, float] = {}
    for key, value in record.items():
        if (name := feedback_name(str(key))) and value not in (None, ""):
            given = feedback(value, name, meta)
            if plain_name(str(key)) == "thumbs_down":
                given = {"thumbs": 0.0} if given.get("thumbs") else {}
            found |= given
    return found


def feedback(found: object, name: str = "feedback", meta: dict[str, Any] | None = None) -> dict[str, float]:
    """Return what a user said of a reply, as numbers: thumbs are 0 or 1, ratings stay as they are.

    Args:
        found: A number, a word, or an object of them.
        name: What a bare number is called.
        meta: Takes a comment in words (`feedback_comment`), and what could not be understood.

    >>> feedback("thumbs_down"), feedback({"rating": 4, "comment": "ok"}), feedback(True, "resolved")
    ({'thumbs': 0.0}, {'rating': 4.0}, {'resolved': 1.0})
    """
    if isinstance(found, Mapping):
        named = {str(key): value for key, value in found.items() if not _NO_FEEDBACK.search(str(key))}
        every = [
            feedback(value, name if key in ("score", "value") else key, meta) for key, value in named.items()
        ]
        if isinstance(found.get("reaction"), str):
            every.append(feedback(found["reaction"], "thumbs", meta))
        return {key: value for some in every for key, value in some.items()}
    if isinstance(found, list):  # Langfuse: all scores of one name
        return feedback(next((one for one in reversed(found) if one is not None), None), name, meta)
    if isinstance(found, bool):
        return {"thumbs" if name in ("feedback", "value", "score", "rating") else name: float(found)}
    if isinstance(found, int | float):
        thumbs = name in ("feedback", "thumbs") and found in (-1, 0, 1)
        known = {"thumbs": float(found > 0)} if thumbs else {name: float(found)}
        return known if math.isfinite(found) else {}
    if isinstance(found, str) and found.strip():
        return _in_words(found, name, meta)
    return {}


def _in_words(found: str, name: str, meta: dict[str, Any] | None) -> dict[str, float]:
    word = re.sub(r"(?<=\w)[- ]", "_", found.strip().lower())
    if word in _GOOD | _BAD and name not in _WORDS:
        return {name if name in ("resolved", "helpful") else "thumbs": float(word in _GOOD)}
    try:
        return feedback(float(word), name, meta)
    except ValueError:
        if meta is not None:
            comment = name in (*_WORDS, "feedback")
            meta["feedback_comment" if comment else f"feedback_{name}"] = found
    return {}


_NO_FEEDBACK = re.compile(r"^(reaction|name|weight)$|(^|_)(time|secs|timestamp|at|id)(_|$)")
_WORDS = ("comment", "text", "reason", "remark", "note")


def reactions(found: object) -> dict[str, float]:
    """Return the thumb among the reactions to a message, as chat platforms list them.

    >>> reactions([{"name": "eyes"}, {"emoji": {"name": "👎"}, "count": 1}])
    {'thumbs': 0.0}
    """
    given: dict[str, float] = {}
    for one in found if isinstance(found, list) else ():
        named = one.get("emoji", one) if isinstance(one, Mapping) else one
        keys = ("name", "reactionType", "type") if isinstance(named, Mapping) else ()
        word = next((named[key] for key in keys if named.get(key)), None if keys else named)
        given |= {key: value for key, value in feedback(word, "thumbs").items() if key == "thumbs"}
    return given


# Passages and tool calls


def passages(found: object) -> tuple[Passage, ...]:
    """Return the passages in a list of texts or documents.

    >>> passages(["Refunds take 5 days.", {"page_content": "Fees", "metadata": {"source": "fees.md"}}])
    (Passage(text='Refunds take 5 days.', source=None), Passage(text='Fees', source='fees.md'))
    """
    if isinstance(found, str | Mapping | Passage):
        found = [found]
    if not isinstance(found, Iterable):
        return ()
    return tuple(passage for one in found if (passage := _passage(one)).text.strip())


def _passage(one: Any) -> Passage:
    if isinstance(one, Passage):
        return one
    if not isinstance(one, Mapping):
        return Passage(clean_text(one if isinstance(one, str) else as_text(one))[0])
    for key in ("document", "node", "data", "retrievedContext"):  # a hit: {"document": {…}, "score": …}
        one = one[key] if isinstance(one.get(key), Mapping) else one
    about = decoded(one.get("metadata"))
    about = about if isinstance(about, Mapping) else {}
    text = next((one[key] for key in _TEXTS if one.get(key)), None)
    source = next((where[key] for where in (one, about) for key in _SOURCES if where.get(key)), None)
    if isinstance(source, Mapping):  # Open WebUI: {"source": {"name": …}, "document": [texts]}
        source = source.get("name")
    if isinstance(text, list) and all(isinstance(piece, str) for piece in text):
        text = "\n".join(text)
    made = clean_text(as_text(text if text is not None else dict(one)))[0]
    return Passage(made, None if source is None else clean_text(str(source))[0])


def is_evidence(key: str) -> bool:
    """Whether passages stand under a key, by its name."""
    return plain_name(key) in EVIDENCE


def evidence_in(record: Mapping[str, Any]) -> tuple[Passage, ...]:
    """Return the passages under the usual names of a record; an object under `context` is none."""
    held = (decoded(value) for key, value in record.items() if is_evidence(str(key)))
    return tuple(one for some in held if isinstance(some, str | list | tuple) for one in passages(some))


def tool_calls(found: object) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message, in whatever way they are written.

    >>> tool_calls([{"id": "c1", "type": "function", "function": {"name": "stock", "arguments": '{"n": 1}'}}])
    (ToolCall(name='stock', arguments={'n': 1}, id='c1'),)
    """
    found = decoded(found)
    if isinstance(found, Mapping | str):
        found = [found]
    return tuple(_tool_call(one) for one in found or () if one) if isinstance(found, list | tuple) else ()


def _tool_call(one: object) -> ToolCall:
    if not isinstance(one, Mapping):
        return ToolCall(clean_text(str(one))[0])
    held = (one[key] for key in ("function", "custom") if isinstance(one.get(key), Mapping))
    inner = next(held, one)
    names = (
        inner.get(key)
        for key in ("name", "toolName", "tool_name", "function_name", "function", "action", "tool")
    )
    name = next((found for found in names if isinstance(found, str) and found), "")
    keys = ("arguments", "args", "input", "input_parameters", "inputParameters", "parameters", "kwargs")
    others = ("tool_kwargs", "server_tool_call", "params_as_json", "toolInput")
    given: object = next((inner[key] for key in (*keys, *others) if inner.get(key) is not None), {})
    ids = ("id", "call_id", "toolCallId", "tool_call_id", "toolUseId", "request_id")
    key = next((one[key] for key in ids if one.get(key)), None)
    return ToolCall(clean_text(name)[0], _arguments(given), str(key) if key else None)


def _arguments(given: object) -> dict[str, Any] | str:
    if isinstance(given, str):
        try:
            parsed = json.loads(given)
        except (ValueError, RecursionError):
            return given
        given = parsed if isinstance(parsed, dict) else given
    return dict(given) if isinstance(given, Mapping) else str(given)


def text_of(part: Mapping[str, Any]) -> Any:
    """Return the text of a part of a message; None if it holds none."""
    for key in ("text", "transcript"):
        if isinstance(part.get(key), str):
            return part[key]
    if isinstance(part.get("text"), Mapping):  # Assistants API: {"text": {"value": …}}
        return part["text"].get("value")
    if isinstance(part.get("document"), Mapping):  # Cohere
        return part["document"].get("data")
    kind, said = str(part.get("type")), part.get("content")
    if kind.endswith("-prompt"):  # Pydantic AI: texts, and links to files
        texts = said if isinstance(said, list) else [said]
        return "\n".join(one for one in texts if isinstance(one, str))
    return part.get(kind) or said if kind in ("text", "refusal") else None


def as_text(value: object) -> str:
    """Return a tool's result as text: parts of text joined, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, Mapping) and text_of(one) for one in value):
        return "\n".join(str(text_of(one)) for one in value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping) and "json" in value[0]:
        value = value[0]["json"]  # Amazon Bedrock
    return json.dumps(value, ensure_ascii=False, default=str)
