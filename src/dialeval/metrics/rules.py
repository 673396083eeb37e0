"""Rules for what needs no model: a reply that is empty, cut off, an error, a leak, a loop, and more.

Each rule is a small function over a reply and what stands around it. It returns the evidence, a few words
that a person can check, or None. A rule knows words (`rules.toml`), not meaning; what it misses and where it
errs is measured on samples that were labelled by hand (docs/metrics/rules.md). The words are English;
`empty`, `cut-off`, `wrong-language`, `loop`, `repeats` and `same-tool-call` need none.
"""

import functools
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files as resources
from itertools import islice
from typing import Any, ClassVar

from dialeval.dialogues import (
    Dialogue,
    ToolCall,
    Turn,
    instructions_of,
    scored_turns,
    steps_before,
    takes_part,
)
from dialeval.dialogues.formats.messages import THOUGHT_IN_TEXT
from dialeval.dialogues.languages import language_of
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.patterns import AnyOf
from dialeval.metrics.registry import Better, Rows, metric
from dialeval.scores import Scores

_NEAR = 0.55  # shared part of the three-word runs of two replies that say the same
_LOOK_BACK = 20  # earlier replies that a near repetition is looked for in
_USERS = 6  # turns of the user that a repeated question is looked for in
_AROUND = 60  # turns that are looked at for these
_SHOWN = 60  # characters of evidence
_LONGEST = 20_000  # characters of a text that are looked at
_FILE = tomllib.loads((resources("dialeval.metrics") / "rules.toml").read_text(encoding="utf-8"))
_WORDS: dict[str, Any] = _FILE["words"]
_OPEN_ENDS, _COMMON = (frozenset(_WORDS[name].split()) for name in ("open-ends", "common"))


def _any_of(name: str) -> AnyOf:
    """Return the patterns of a list of words, with the classes of words in them filled in."""
    classes: dict[str, str] = _FILE["classes"]
    return AnyOf(re.sub(r"<(\w+)>", lambda found: classes[found[1]], pattern) for pattern in _WORDS[name])


@dataclass(slots=True)
class Reply:
    """A reply with what a rule may look at.

    Attributes:
        turn: The reply.
        asked: What the user said before it.
        next: What the user said after it, None at the end.
        later: Whether the system says more before the user does.
        steps: Tool calls and results that led to it.
        times: How often the same words were said before.
        recent: The last earlier replies, as written.
        users: The user's last turns before it.
        calls: Those of its tool calls that were made before, with the same arguments.
        instructions: The system prompt.
    """

    turn: Turn
    asked: str = ""
    next: str | None = None
    later: bool = False
    steps: tuple[Turn, ...] = ()
    times: int = 0
    recent: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    instructions: str = ""


Rule = Callable[[Reply], str | None]
RULES: dict[str, Rule] = {}


def _rule(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES[name] = rule
        return rule

    return register


def _shown(text: str) -> str:
    flat = " ".join(text[: 4 * _SHOWN].split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}…"


@functools.lru_cache(maxsize=256)  # the texts around a reply are looked at again with the next one
def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text[:_LONGEST].lower()))


def _straight(text: str) -> str:
    return text[:_LONGEST].replace("\u2019", "'")


def _found(pattern: AnyOf | re.Pattern[str], text: str) -> str | None:
    match = pattern.search(_straight(text))
    return _shown(match[0]) if match else None


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`]*`", re.DOTALL)
_QUOTED = re.compile(r"\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d|^>.*$", re.MULTILINE)
_LETTER = re.compile(r"^\W*(?:subject:|dear \w).*", re.IGNORECASE | re.MULTILINE | re.DOTALL)


@functools.lru_cache(maxsize=16)
def _own(text: str) -> str:
    """Return what a speaker says in person: without code, quotations and the letter drafted for another."""
    return _LETTER.sub(" ", _QUOTED.sub(" ", _CODE.sub(" ", _straight(text))))


_INVISIBLE = " \t\r\n\f\v\u00a0\u2002\u2003\u2009\u200b\u200c\u200d\u2060\u3000\ufeff"


@_rule("empty")
def _empty(reply: Reply) -> str | None:
    blank = (
        not reply.turn.text.strip(_INVISIBLE)
        and not reply.turn.tool_calls
        and not reply.turn.meta.get("parts")
    )
    return "no text" if blank else None


_LENGTH = _any_of("length")


@_rule("cut-off")
def _cut_off(reply: Reply) -> str | None:
    if reply.turn.finish_reason and _LENGTH.search(reply.turn.finish_reason):
        return f"finish reason {reply.turn.finish_reason}"
    text = reply.turn.text.rstrip()
    if broken := _broken_off(text):
        return broken
    words = text.split()
    if len(words) < 8 or not re.search(r"[\w,;(\[\u2013\u2014-]$", text):
        return None
    ending = f"ends with “{_shown(' '.join(words[-4:]))}”"
    if words[-1].strip(".,;:!?()[]\"'").lower() in _OPEN_ENDS or text[-1] in ",;([":
        return ending
    careless = any(re.search(r"\w\s*$", other) for other in reply.recent if len(other.split()) >= 8)
    known = careless or "://" in words[-1]
    return ending if not known and _mid_sentence(text.splitlines()) else None


_ITEM = re.compile(r"([-*•#>|]|\d+[.)])\s*")


def _mid_sentence(lines: list[str]) -> bool:
    """Whether the last line is long prose after prose, or an item after others that end with a stop."""
    *before, last = (line.strip() for line in lines if line.strip())
    *ended, rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", last)
    if item := _ITEM.match(last):
        stops = [line[-1] in ".!?" for line in before if line[0].isdigit() and _ITEM.match(line)]
        return item[1][0].isdigit() and len(stops) > 1 and all(stops) and len(last.split()) > 5
    return len(rest.split()) >= 12 and (bool(ended) or any(line[-1] in ".!?" for line in before))


def _broken_off(text: str) -> str | None:
    """Return what was begun and is not ended: code, JSON, a list, a row of a table."""
    if text.count("```") % 2:
        return "a code block is not closed"
    lines = [line.strip() for line in text.splitlines()] or [""]
    if (
        text[:1] in ("{", "[")
        and re.search(r"[\w\"':,{\[]$", text)
        and text.count(text[0]) == 1
        and '"' in text
    ):
        return f"JSON is not closed: {_shown(text[-_SHOWN:])}"
    if lines[-1].count("**") % 2 and re.search(r"(?:^|\s)\*\*[\w ,:'-]+$", lines[-1]):
        return f"bold text is not ended: {_shown(lines[-1][-_SHOWN:])}"
    if len(lines) > 1 and re.fullmatch(r"(?:\d+[.)]|[-*•])", lines[-1]):
        return f"an item without text: {lines[-1]}"
    if len(lines) > 2 and lines[-1].startswith("|") and lines[-1].count("|") < lines[-2].count("|"):
        return f"a row is not ended: {_shown(lines[-1])}"
    return None


_FILTERED, _REFUSAL, _NO_REFUSAL = map(_any_of, ("filtered", "refusal", "no-refusal"))


@_rule("refusal")
def _refusal(reply: Reply) -> str | None:
    if reply.turn.finish_reason and _FILTERED.search(reply.turn.finish_reason):
        return f"finish reason {reply.turn.finish_reason}"
    return _found(_REFUSAL, _NO_REFUSAL.pattern.sub(" ", _own(reply.turn.text)))


_ERROR, _ABOUT_ERRORS, _EXPLAINS, _HYPOTHETICAL = map(
    _any_of, ("error", "about-errors", "explains", "hypothetical")
)


@_rule("error-text")
def _error_text(reply: Reply) -> str | None:
    text = _straight(reply.turn.text).strip()
    if not re.match(r"Traceback|Error\b", text):
        if _ABOUT_ERRORS.search(reply.asked) or _EXPLAINS.search(text) or _QUOTED.fullmatch(text):
            return None
        prose = _CODE.sub(" ", text)
        text = prose if len(prose.split()) > 8 else text
    found = _ERROR.search(text)
    if not found or _HYPOTHETICAL.search(text[: found.start()]):
        return None
    return _shown(found[0]) if len(text.split()) <= 80 or "Traceback (most recent" in text else None


_TEMPLATE = re.compile("|".join(_WORDS["template"]), re.MULTILINE)
_PROMPT, _WANTS_CODE, _WANTS_TEXT = map(_any_of, ("prompt", "wants-code", "wants-text"))
_NOTHING = ("none", "null", "undefined", "nan", "n/a", "[]", "{}", "true", "false")
_CALL = re.compile(
    r"\"(?:name|tool|function|action)\"\s*:\s*\"\w+\"\s*,\s*\"(?:arguments|parameters|args|action_input|input)\""
    r"|\A(?:print\()?[a-z]\w*(?:\.\w+)*\((?:\w+ ?= ?[^=].*|[\"'{].*)?\)\Z|```tool_\w+"
)

_WRAPPED = re.compile(
    r"\A(?:(?:tool|function|api)[ _](?:result|output|response|call)s?:\s*)?"
    r"(?:```(?:json)?\s+)?([\[{].*?[\]}])(?:\s*```)?\Z",
    re.IGNORECASE | re.DOTALL,
)


@_rule("leak")
def _leak(reply: Reply) -> str | None:
    text = reply.turn.text[:_LONGEST].strip()
    if text.lower() in _NOTHING:
        return f"the reply is “{text}”"
    wants = _WANTS_CODE.search(reply.asked)
    bare = _WRAPPED.sub(r"\1", text)
    if bare[:1] in ("{", "[") and not wants and _is_json(bare):
        return f"JSON: {_shown(text)}"
    outside = _CODE.sub(" ", text)
    if _CALL.search(outside if wants else text):
        return f"a tool call as text: {_shown(text)}"
    if reply.turn.meta.get(THOUGHT_IN_TEXT):
        return "its thoughts stood in the reply"
    explains = re.search(
        r"\b(?:[Jj]inja|[Vv]ariables?|[Ss]yntax|[Tt]emplates?|[Pp]laceholders?|print\w*)\b", outside
    )
    if not wants and not explains and (found := _found(_TEMPLATE, outside)):
        return f"a template: {found}"
    written = _WANTS_TEXT.search(reply.asked)
    if not written and _speaks_for_user(outside):
        return "it speaks for the user"
    told = (None if written else _found(_PROMPT, outside)) or _shared_run(text, reply.instructions)
    return f"its prompt: {told}" if told else None


def _speaks_for_user(text: str) -> bool:
    """Whether a line is the user's; first or short, it may be a title or a field: an answer must follow."""
    said = re.search(r"^\W*(?:human|user|customer)\W{0,2}:\W(.*)", text, re.IGNORECASE | re.MULTILINE)
    answered = re.search(r"\n\W*(?:assistant|bot|ai|agent|system)\W{0,2}:", text, re.IGNORECASE)
    return bool(said and (answered or (text[: said.start()].strip() and len(said[1].split()) >= 3)))


def _is_json(text: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return bool(re.match(r"[\[{]\s*(?:\{\s*)?([\"'])\w+\1\s*:", text))
    return isinstance(found, dict) or (isinstance(found, list) and bool(found) and isinstance(found[0], dict))


def _shared_run(text: str, instructions: str, length: int = 12) -> str | None:
    """Return a run of words that a reply shares with its instructions."""
    if len(instructions.split()) < length:
        return None
    words, known = _plain(text).split(), f" {_plain(instructions)} "
    runs = (" ".join(words[place : place + length]) for place in range(len(words) - length + 1))
    return next((_shown(run) for run in runs if f" {run} " in known), None)


_OTHER_LANGUAGE = _any_of("other-language")


@_rule("wrong-language")
def _wrong_language(reply: Reply) -> str | None:
    if any(_OTHER_LANGUAGE.search(text) for text in reply.users[-3:]):
        return None
    answered = language_of(reply.turn.text)
    asked = answered and (language_of(reply.asked) or language_of("\n".join(reply.users[-4:])))
    if not answered or not asked or answered == asked or {answered, asked} <= {"no", "da", "sv"}:
        return None
    return f"{answered} to a user who writes {asked}"


@_rule("loop")
def _loop(reply: Reply) -> str | None:
    plain = _plain(reply.turn.text)
    if reply.times < 2 or len(plain.split()) < 2:
        return None
    return f"said {reply.times + 1} times: {_shown(reply.turn.text)}"


_REPEAT_PLEASE = _any_of("repeat-please")
_NUMBER = re.compile(r"\w*\d\w*")


@_rule("repeats")
def _repeats(reply: Reply) -> str | None:
    plain = _plain(reply.turn.text)
    if plain.count(" ") < 4 or _REPEAT_PLEASE.search(reply.asked):
        return None
    if reply.times:
        return f"word for word: {_shown(reply.turn.text)}"
    runs, numbers = _runs(plain), set(_NUMBER.findall(plain))
    for earlier in reversed(reply.recent) if len(runs) > 5 else ():
        other = _plain(earlier)
        theirs = _runs(other)
        same = numbers == set(_NUMBER.findall(other))  # other numbers, another matter
        if same and len(runs & theirs) >= _NEAR * min(len(runs), len(theirs)) and _similar(plain, other):
            return f"nearly word for word: {_shown(earlier)}"
    return None


def _similar(one: str, other: str) -> bool:
    """Whether two texts share four of five words, and neither is much longer."""
    mine, theirs = set(one.split()), set(other.split())
    return len(mine & theirs) >= 0.75 * len(mine | theirs)


@functools.lru_cache(maxsize=256)
def _runs(plain: str) -> frozenset[tuple[str, ...]]:
    words = plain.split()
    return frozenset(zip(words, words[1:], words[2:], strict=False))


_QUESTION, _HELP = _any_of("question"), re.compile(r"\b(?:help|assist)", re.IGNORECASE)
_PLEASANTRY, _PROMISED = ("|".join(_WORDS[name]) for name in ("pleasantry", "promise"))
_PROMISE = re.compile(
    rf"(?:(?:{_PLEASANTRY})[\s,.!:)-]+)*(?:{_PROMISED})(?:[\s,.!:)…-]+(?:{_PROMISED})){{0,3}}[\s,.!:)…-]*",
    re.IGNORECASE,
)


@_rule("unanswered-question")
def _unanswered(reply: Reply) -> str | None:
    text = _straight(reply.turn.text).strip()
    if reply.later or not _QUESTION.search(reply.asked) or len(text.split()) > 30:
        return None
    helps = _HELP.search(reply.asked) and _HELP.search(text)  # asked for help, it says that it will
    if helps or (text and not _PROMISE.fullmatch(text)):
        return None
    return f"{f'only “{_shown(text)}”' if text else 'nothing'} to: {_shown(reply.asked)}"


def call_text(call: ToolCall) -> str:
    """Return a tool call as one text, the same for the same call."""
    given = call.arguments
    text = given if isinstance(given, str) else json.dumps(given, sort_keys=True, default=str)
    return f"{call.name} {text}"


_TRANSIENT, _TOOL_ERROR, _TOOL_FAILED, _ADMITS = map(
    _any_of, ("transient", "tool-error", "tool-failed", "admits")
)


def is_error(result: Turn, record: bool = False) -> bool:
    """Whether a tool's result is an error; a `record` that was looked up may tell of an earlier failure."""
    head = result.text[:300]
    return bool(
        result.meta.get("is_error") or _TOOL_ERROR.search(head) or (not record and _TOOL_FAILED.search(head))
    )


def is_transient(result: Turn) -> bool:
    """Whether a tool failed for a reason that passes, so that the same call again is right."""
    return is_error(result) and bool(_TRANSIENT.search(result.text[:300]))


@_rule("same-tool-call")
def _same_call(reply: Reply) -> str | None:
    seen: set[str] = set()
    for place, step in enumerate((*reply.steps, reply.turn)):
        for key in map(call_text, step.tool_calls):
            if key in seen or key in reply.calls:
                return f"again: {_shown(key)}"
            result = next((one for one in reply.steps[place + 1 :] if one.speaker == "tool"), None)
            if result is None or not is_transient(result):
                seen.add(key)
    return None


@_rule("tool-error-ignored")
def _error_ignored(reply: Reply) -> str | None:
    names = {call.id: call.name for step in reply.steps for call in step.tool_calls if call.id}
    results = [step for step in reply.steps if step.speaker == "tool"]
    last = {step.name or names.get(step.tool_call_id or "", ""): step for step in results}
    failed = next((result for result in last.values() if is_error(result)), None)
    if failed is None or not reply.turn.text.strip() or _ADMITS.search(_straight(reply.turn.text)):
        return None
    return f"the tool said: {_shown(failed.text)}"


_HAND_OVER, _OFFER, _NOT_OVER = map(_any_of, ("hand-over", "offer", "not-over"))
HAND_OVER_TOOL = _any_of("hand-over-tool")


@_rule("hand-over")
def _hand_over(reply: Reply) -> str | None:
    for step in (*reply.steps, reply.turn):
        for call in step.tool_calls:
            if HAND_OVER_TOOL.search(call.name):
                return f"tool {call.name}"
    if _WANTS_TEXT.search(reply.asked):
        return None
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", _own(reply.turn.text)):
        found = _HAND_OVER.search(sentence)
        if found and not _OFFER.search(sentence) and not _NOT_OVER.search(sentence[: found.start()]):
            return _shown(found[0])
    return None


_AGAIN, _GIVES_UP, _EDITS = map(_any_of, ("again", "gives-up", "edits"))


@_rule("asks-again")
def _asks_again(reply: Reply) -> str | None:
    if reply.next is None:
        return None
    if found := _found(_AGAIN, _own(reply.next)):
        return f"the user: {found}"
    words = set(_plain(reply.next).split())
    content = words - _COMMON
    for text in reversed(reply.users) if len(words) >= 4 and len(content) >= 2 else ():
        other = set(_plain(text).split())
        theirs = other - _COMMON
        alike = len(content & theirs) >= 0.6 * len(content | theirs)
        alike = alike and len(words & other) >= 0.5 * len(words | other)
        whole = other <= words and len(theirs) >= 2 and len(other) >= 5 and "?" not in reply.turn.text
        if alike or whole:
            return f"the user again: {_shown(reply.next)}"
    return None


@_rule("gives-up")
def _gives_up(reply: Reply) -> str | None:
    said = _own(reply.next or "")
    found = None if _EDITS.search(said) else _found(_GIVES_UP, said)
    return f"the user: {found}" if found else None


def replies(dialogue: Dialogue, speaker: str | None = None) -> Iterator[tuple[int, Reply]]:
    """Yield each scored turn of a dialogue with what stands around it."""
    turns, scored = dialogue.turns, scored_turns(dialogue, speaker)
    prompt = instructions_of(dialogue) or ""
    said: Counter[str] = Counter()
    recent: list[str] = []
    calls: set[str] = set()
    seen = 0
    for place, number in enumerate(scored):
        turn = turns[number]
        before = islice(reversed(turns[max(0, number - _AROUND) : number]), _AROUND)
        users = [one.text for one in before if takes_part(one) and one.speaker != turn.speaker][:_USERS]
        around = range(number + 1, min(len(turns), number + _AROUND))
        after = next((n for n in around if takes_part(turns[n]) and turns[n].speaker != turn.speaker), None)
        following = scored[place + 1] if place + 1 < len(scored) else len(turns)
        later = following < (len(turns) if after is None else after)
        steps = steps_before(dialogue, number)
        first = steps[0] if steps else number
        calls.update(call_text(call) for one in turns[seen:first] for call in one.tool_calls)
        seen = max(seen, first)
        made = Reply(turn, users[0] if users else "", later=later, instructions=prompt)
        made.next = None if after is None else turns[after].text
        made.steps = tuple(turns[n] for n in steps)
        made.times, made.recent, made.users = said[_plain(turn.text)], recent[-_LOOK_BACK:], users[::-1]
        made.calls = {call_text(call) for one in (*made.steps, turn) for call in one.tool_calls} & calls
        yield number, made
        said[_plain(turn.text)] += 1
        recent.append(turn.text)


@metric("rules.v3")
@dataclass(frozen=True)
class Rules:
    """Deterministic rules for faulty replies, 1 or 0 each.

    Each rule is a dimension: 1 where it fires, else 0.
    At dialogue level, 1 where it fires on any reply. `explain` gives the evidence.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Where is it?"), ("assistant", "Error: 502 Bad Gateway")], "d1")
    >>> [row.dimension for row in Rules().score([chat]) if row.turn == 1 and row.value]
    ['error-text']
    """

    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = tuple(RULES)
    better: ClassVar[Better] = "lower"

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Return a row for each reply and rule, and one for each dialogue and rule."""
        rows = Rows(self)
        for dialogue in dialogues:
            ever: dict[str, float] = {}
            for number, reply in replies(dialogue, self.speaker):
                for name, rule in RULES.items():
                    value = float(rule(reply) is not None)
                    ever[name] = max(ever.get(name, 0.0), value)
                    rows.add(dialogue, number, name, value)
            for name in RULES:
                rows.add(dialogue, None, name, ever.get(name), None if ever else "no reply to score")
        return rows.scores()

    def explain(self, dialogues: Iterable[Dialogue]) -> list[Explanation]:
        """Return, for each dialogue, its turns with what the rules found in them."""
        return [self._explain(dialogue) for dialogue in dialogues]

    def _explain(self, dialogue: Dialogue) -> Explanation:
        found = {
            number: {name: evidence for name, rule in RULES.items() if (evidence := rule(reply))}
            for number, reply in replies(dialogue, self.speaker)
        }
        said = {
            number: "; ".join(f"{name}: {why}" for name, why in some.items())
            for number, some in found.items()
        }
        turns = tuple(
            ExplainedTurn(turn.speaker, (Piece(turn.text, said.get(number) or None),), number)
            for number, turn in enumerate(dialogue.turns)
            if takes_part(turn)
        )
        counts = Counter(name for some in found.values() for name in some)
        failing = float(sum(map(bool, found.values()))) if found else None
        own = Side(dialogue.id, turns)
        return Explanation(dialogue.id, "rules", failing, {name: float(n) for name, n in counts.items()}, own)
