"""Transcripts in plain text: `User:` lines, headings, what WhatsApp exports (in any locale) and Slack copies.

`User:` and `System:` lines begin turns, a line without a speaker continues the turn before. Where a line
begins with the name of a role, only such names are speakers: "Note:" in an answer is a part of it. Dialogues
are apart by a blank line, unless blank lines stand between all turns.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path

import msgspec

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn
from dialeval.dialogues.formats.messages import PROGRAMS, role, with_known_bot
from dialeval.dialogues.formats.values import instant
from dialeval.errors import DataError

Numbered = Iterator[tuple[int, Dialogue]]
Tell = Callable[[str], None]
_SPEAKER = re.compile(  # a time may stand before it
    r"\s{0,3}(?P<mark>[-*•]\s+|\d+[.)]\s+)?(?:\d{1,2}:\d{2}(?::\d{2})?\s+)?(?:\*\*)?"
    r"(?P<who>[^\W\d_][\w .'()-]{0,30}?)(?:\*\*)?\s?:(?:\*\*)?(?:\s|$)"
)
_NO_NAMES = frozenset(
    (
        *("note", "notes", "warning", "tip", "tips", "example", "examples", "answer", "question", "summary"),
        *("important", "step", "steps", "todo", "output", "input", "result", "results", "hint", "caution"),
        *(
            "remember",
            "source",
            "sources",
            "reference",
            "references",
            "http",
            "https",
            "ps",
            "edit",
            "update",
        ),
        *("total", "date", "time", "subject", "to", "cc", "re", "fwd", "conclusion", "pros", "cons"),
    )
)
_TIME = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:[\s\u202f]?(?:[AaPp]\.?[\s\u202f]?[Mm]\.?|[صم]\b))?"
_DATE = (  # 31/01/2026 à 22:15, 2026. 1. 31. 오후 10:15, [31/1/26, 10:15:02 p. m.]
    r"\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4}\.?[,،]?\s(?:[^\W\d]{1,3}\s|[上下]午\s?)?" + _TIME
)
_DATED = re.compile(
    rf"\u200e?(?:[\[(](?P<a>{_DATE}|{_TIME})[\])]|(?P<b>{_DATE})(?: [-\u2013]|,)?)"
    r" (?:(?P<who>[^:]{1,60}?)\s?: )?(?P<text>.*)"
)
_TAKEN_BACK = (
    *("this message was deleted", "you deleted this message", "diese nachricht wurde gelöscht"),
    *("du hast diese nachricht gelöscht", "se eliminó este mensaje", "eliminaste este mensaje"),
    *("esta mensagem foi apagada", "mensagem apagada", "você apagou esta mensagem"),
    *("questo messaggio è stato eliminato", "hai eliminato questo messaggio", "ce message a été supprimé"),
    *("vous avez supprimé ce message", "dit bericht is verwijderd", "dit bericht werd verwijderd"),
    *("ta wiadomość została usunięta", "bu mesaj silindi", "данное сообщение удалено"),
    *("вы удалили данное сообщение", "このメッセージは削除されました", "삭제된 메시지입니다"),
    *("此消息已删除", "تم حذف هذه الرسالة", "pesan ini telah dihapus"),
)
_PLACEHOLDER = re.compile(  # image omitted, <Media omitted>, in any language; what was taken back
    rf"\u200e.*|<[^<>]+>|({'|'.join(_TAKEN_BACK)})[.。]?", re.IGNORECASE
)
_TITLE = re.compile(r"\s*|-{3,}|={3,}|# (?!.*:$).*")
_APART = re.compile(r"#{1,3}\s+(conversation|chat|dialogue|dialog|session|transcript)\b.*", re.IGNORECASE)
_HEADING = re.compile(r"(?:<\|im_start\|>|#{1,4}\s+|\*\*)(?P<who>[A-Za-z]+):?(?:\*\*)?:?\s*")
_SLACK = re.compile(
    r"(?P<who>[^\[\]:]{1,40}?)(?P<app>\s?APP)?\s{1,2}\[?(?P<when>\d{1,2}:\d{2}(?:\s?[AP]M)?)\]?\s*$"
)


def read_text(path: str | Path, tell: Tell | None = None) -> Numbered:
    """Yield the dialogues of a transcript.

    Here `System:` is the bot. An empty turn is written as a speaker with nothing behind the colon.
    """
    for number, dialogue in _dialogues(path, tell):
        yield number, msgspec.structs.replace(dialogue, turns=with_known_bot(dialogue.turns))


def _dialogues(path: str | Path, tell: Tell | None) -> Numbered:
    lines = dropwhile(lambda one: _TITLE.fullmatch(one[1]) and not _is_heading(one[1]), _lines(path))
    head: list[tuple[int, str]] = []
    for one in lines:
        head.append(one)
        if one[1].strip() and len(head) > 4:
            break
    said = [line for _, line in head if line.strip()]
    if said and (said[0].startswith("WEBVTT") or any(_CUE.match(line) for line in said[:2])):
        turns = _checked(path, 1, spoken(list(_captions(_chained(head, lines)))))
        yield 1, Dialogue("", tuple(turns))
    elif said and _MAIL.match(said[0]) and any(_MAIL.match(line) for line in said[1:3]):
        yield from _whole(_mails(head, lines), path, tell, "mail")
    elif said and _DATED.fullmatch(said[0]):
        yield from _whole(_dated(head, lines), path, tell, "WhatsApp")
    elif any(map(_is_heading, said)) and not any(
        map(_speaks, takewhile(lambda one: not _is_heading(one), said))
    ):
        for said_there in _headed(head, lines):
            yield from _whole(said_there, path, tell, "Markdown")
    elif said and _SLACK.fullmatch(said[0]) and not _SPEAKER.match(said[0]):
        yield from _whole(_slack(head, lines), path, tell, "Slack")
    else:
        yield from _transcripts(path, _chained(head, lines), tell)


def _is_heading(line: str) -> bool:
    match = _HEADING.fullmatch(line)
    return match is not None and _known(match["who"])


def _speaks(line: str) -> bool:
    match = _SPEAKER.match(line)
    return match is not None and _known(match["who"])


def _chained(head: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield from head
    yield from rest


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    with files.open_binary(path) as file:
        for number, raw in enumerate(files.lines(file, path), 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                yield number, text.replace("\u200f", "")  # stands in dates of Arabic and Hebrew
            except UnicodeDecodeError as error:
                message = f"not UTF-8: {error.reason}"
                raise DataError(message, file=path, line=number, fix="save it as UTF-8") from None


def _transcripts(path: str | Path, lines: Iterator[tuple[int, str]], tell: Tell | None) -> Numbered:
    blocks = _blocks(path, lines)
    first = next(blocks, None)
    if first is None:
        return
    second = next(blocks, None)
    parsed = [spoken(one[1]) for one in (first, second) if one is not None]
    apart = len(parsed) == 2 and all(len(turns) == 1 for turns in parsed)
    if apart and parsed[0][0].speaker != parsed[1][0].speaker:
        if tell:
            tell(f"{path}: a blank line stands after every turn: read as one dialogue")
        everything = [line for block in (first, second, *blocks) if block for line in (*block[1], "")]
        yield first[0], Dialogue("", tuple(_checked(path, first[0], spoken(everything))))
        return
    doubtful: Counter[str] = Counter()
    held: tuple[int, list[Turn]] | None = None
    for begin, block in _again(first, second, blocks):
        turns = spoken(block, doubtful)
        if turns and not turns[0].speaker and held is not None:  # a paragraph of the turn before
            last = held[1][-1]
            held[1][-1] = clean_turn(last.speaker, f"{last.text}\n\n{turns[0].text}")
            held[1].extend(turns[1:])
            continue
        if held is not None:
            yield held[0], Dialogue("", tuple(held[1]))
        held = begin, _checked(path, begin, turns)
    if held is not None:
        yield held[0], Dialogue("", tuple(held[1]))
    if doubtful and tell:
        named = ", ".join(f"{name}:" for name, _ in doubtful.most_common(3))
        tell(f"{path}: {sum(doubtful.values())} lines begin like a speaker and were read as text: {named}")


def _again(
    first: tuple[int, list[str]], second: tuple[int, list[str]] | None, rest: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    yield first
    if second is not None:
        yield second
    yield from rest


def _blocks(path: str | Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    block: list[str] = []
    begin, size, most = 1, 0, files.max_record()
    for number, line in lines:
        if not line.strip():
            if block:
                yield begin, block
            block = []
            continue
        if not block:
            begin, size = number, 0
        size += len(line.encode(errors="replace")) + 1
        if size > most:
            raise files.too_large(path, begin)
        block.append(line)
    if block:
        yield begin, block


def _checked(path: str | Path, line: int, turns: list[Turn]) -> list[Turn]:
    if turns and not turns[0].speaker:
        message = "a dialogue begins without a speaker"
        raise DataError(message, file=path, line=line, fix="User: … or System: …")
    return turns


def spoken(block: list[str], doubtful: Counter[str] | None = None) -> list[Turn]:
    """Split a block of lines into turns; what comes before the first speaker has the speaker "".

    Where only those who ask go by a role, one name that comes again is who answers.
    """
    found = [_SPEAKER.match(line) for line in block]
    names = [_KINDS.sub("", match["who"].strip()) if match else "" for match in found]
    sides = {role(_plain(name)) for name in names if _known(name)}
    plain = [name for name, match in zip(names, found, strict=True) if match and not match["mark"]]
    others = Counter(name for name in plain if _named(name))
    people = {who for who, count in others.items() if count > 1 and len(others) == 1 and sides == {"user"}}
    turns: list[tuple[str, list[str]]] = []
    for line, match, who in zip(block, found, names, strict=True):
        known = _known(who) or who in people
        speaks = known if sides or (match and match["mark"]) else bool(match) and _named(who)
        if match and speaks:
            name = re.sub(r"^From (.+) to .+$", r"\1", who)
            turns.append((_speaker(name), [line[match.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        else:
            turns.append(("", [line]))
        if match and not (speaks or match["mark"]) and doubtful is not None:
            doubtful[who] += 1
    return [clean_turn(who, "\n".join(lines)) for who, lines in turns]


def _named(name: str) -> bool:
    """Whether what stands before a colon can be a name, where no role does."""
    return name.strip().lower() not in _NO_NAMES and "(" not in name and not _known(name)


# What may stand before the name of a role: Support Agent, Human Agent
_KINDS = re.compile(
    r"^(?:[A-Z][\w-]* ){1,2}(?=(?:[Aa]gent|[Aa]ssistant|[Bb]ot|[Cc]hatbot|[Cc]ustomer|[Uu]ser)$)"
)


def _plain(name: str) -> str:
    """Return a name without what stands behind it: `Agent (Maria)`, `Customer 2`."""
    return re.sub(r"\s*(\([^()]*\)|\d+)$", "", name.strip())


def _known(name: str) -> bool:
    plain = _plain(name)
    return role(plain) in ("user", "assistant", "system", "tool") or plain.lower() in PROGRAMS


# WhatsApp and Slack: who spoke when stands before every message


_BOT = re.compile(r"\b(bot|assistant|support|service|help ?desk|ai)\b", re.IGNORECASE)


def _whole(
    said: Sequence[tuple[str, str, str | None]], path: str | Path, tell: Tell | None, what: str
) -> Numbered:
    """Make one dialogue of (speaker, time, text); people keep their names, bots are found by theirs."""
    people = list(dict.fromkeys(who for who, _, _ in said))
    answers = "assistant" in (role(_plain(who)) for who in people)
    sides = {who: role(_plain(who) if _known(who) else who) if answers else _speaker(who) for who in people}
    others = [who for who in people if not _known(who)]
    bots = [] if "assistant" in sides.values() else [who for who in others if _BOT.search(who)]
    if bots or "assistant" in sides.values():
        sides |= {who: "assistant" if who in bots else "user" for who in others}
    left_out = sum(text is None for _, _, text in said)
    if tell and bots and len(people) > len(bots):
        tell(f"{path}: {what} text: roles guessed by name, {', '.join(sorted(bots))} is the bot")
    elif tell and others == people and people[1:]:
        tell(f"{path}: {what} text: no name says who the bot is: every turn but the first is scored")
    if tell and left_out:
        tell(f"{path}: {what} text: {left_out} attachments or notices left out")
    turns = []
    for who, when, text in said:
        name = who if who in others else None
        made = msgspec.structs.replace(clean_turn(sides[who], text), time=when or None, name=name)
        turns += [made] if text is not None else []
    if not turns:
        raise DataError(f"{what} text in which no line says who spoke", file=path, fix="User: … or System: …")
    yield 1, Dialogue("", tuple(turns))


def _speaker(name: str) -> str:
    if name.strip().lower() == "system":
        return "assistant"
    return role(_plain(name) if _known(name) else name)


def _dated(head: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> list[tuple[str, str, str | None]]:
    """Read messages behind their times; the text of one that stands for a file, or a notice, is None."""
    said: list[tuple[str, str, str | None]] = []
    for number, line in _chained(head, rest):
        match = _DATED.fullmatch(line)
        notice = number == 1 and match and match["text"].startswith("\u200e")  # of encryption, on iPhones
        if match and match["who"] and not notice:
            held = None if _PLACEHOLDER.fullmatch(match["text"]) else match["text"]
            said.append((match["who"].strip("\u200e "), match["a"] or match["b"], held))
        elif match and match["a"] and _NAME.fullmatch(match["text"]):  # Teams: the text stands below
            said.append((match["text"], match["a"], ""))
        elif not match and said:
            who, when, text = said[-1]
            said[-1] = who, when, f"{text}\n{line}" if text else line
    said = [one for one in said if one[2] != ""]
    return said  # a line with a date and no speaker tells of encryption, or who joined


_NAME = re.compile(r"[^\W\d_][\w.'-]*(?: [\w.'()-]+){0,3}")


def _headed(head: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> list[list[tuple[str, str, str]]]:
    """Read turns below headings (`## User`, `<|im_start|>user`); a blank line is part of a turn."""
    chats: list[list[tuple[str, str, list[str]]]] = [[]]
    for _, line in _chained(head, rest):
        match = _HEADING.fullmatch(line)
        if match and _is_heading(line):
            chats[-1].append((match["who"], "", []))
        elif _APART.fullmatch(line):
            chats += [[]] if chats[-1] else []
        elif chats[-1]:
            chats[-1][-1][2].append(line.removesuffix("<|im_end|>"))
    texts = ([(who, when, _ruled("\n".join(lines))) for who, when, lines in said] for said in chats if said)
    return list(texts)


def _ruled(text: str) -> str:
    """Return a text without the rule below it."""
    return re.sub(r"\n+-{3,}$", "", text.rstrip()).strip()


_CUE = re.compile(r"(\d+:)?\d\d:\d\d[.,]\d{3} --> ")
_VOICE = re.compile(r"<v(?:\.[^ >]*)? ([^>]+)>(.*?)(?:</v>)?$")


def _captions(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Yield the lines of captions (SRT, WebVTT) without numbers and times, `<v Ann>` as `Ann:`.

    A cue of the speaker before it goes on with that turn.
    """
    inside, last = False, ""
    for _, line in lines:
        if _CUE.match(line):
            inside = True
        elif not line.strip():
            inside = False
        elif inside:
            voice = _VOICE.match(line)
            who, text = (voice[1], voice[2]) if voice else ("", line)
            yield f"{who}: {text}" if who and who != last else text
            last = who or last


_MAIL = re.compile(
    r"(?:>\s?)*\*{0,2}(From|Von|De|Sent|Gesendet|Envoyé|Date|Datum|To|An|À|Subject|Betreff|Objet|Cc):"
)
_WROTE = re.compile(
    r"(?:On|Am|Le|El) (?P<when>.*\d.*?)(?:,| schrieb)\s(?P<who>[^<,]+?)\s*<[^>]*>,?"
    r"\s*(?:wrote|a écrit|escribió)?\s?:$"
)
_HEAD = re.compile(r"(?P<key>[^:*]+):\*{0,2}\s*(?P<value>.*)")


def _mails(head: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> list[tuple[str, str, str]]:
    """Read mails below their heads, as a thread is copied or forwarded; the newest may stand first."""
    said: list[tuple[str, str, list[str]]] = []
    above = False
    for _, line in _chained(head, rest):
        plain = line.lstrip("> *")
        match = _HEAD.match(plain) if _MAIL.match(line) else None
        if match and match["key"] in ("From", "Von", "De"):
            who = re.sub(r"\s*[<\[(].*", "", match["value"]).strip(' "*')
            said.append((who or match["value"], "", []))
            above = True
        elif match and above:
            if match["key"] in ("Sent", "Gesendet", "Envoyé", "Date", "Datum"):
                said[-1] = said[-1][0], match["value"], said[-1][2]
        elif said and (quoted := _WROTE.match(plain)):
            said.append((quoted["who"].strip(), quoted["when"], []))
        elif said:
            above = above and not plain.strip()
            line = re.sub(r"^(>\s?)+", "", line)  # noqa: PLW2901
            if not re.match(r"-{2,}\s*(Original|Urspr|Forwarded)|_{8,}|On .* wrote:|Am .* schrieb", plain):
                said[-1][2].append(line)
    turns = [(who, when, "\n".join(lines).strip()) for who, when, lines in said]
    times = [instant(re.sub(r"^\w+, (?=\w+ \d)", "", when))[0] for _, when, _ in turns]
    newest_first = all(times) and times[0] > times[-1]
    answered = not all(times) and re.match(r"(?i)(re|aw|sv|tr|antw)\b", _subject(head))
    return turns[::-1] if newest_first or answered else turns


def _subject(head: list[tuple[int, str]]) -> str:
    held = (one[1].partition(":")[2].strip() for one in head if re.match("(Subject|Betreff|Objet):", one[1]))
    return next(held, "")


def _slack(head: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> list[tuple[str, str, str]]:
    said: list[tuple[str, str, str]] = []
    for _, line in _chained(head, rest):
        match = _SLACK.fullmatch(line)
        if match and not _SPEAKER.match(line):
            said.append((match["who"].strip() + (" bot" if match["app"] else ""), match["when"], ""))
        elif said:
            who, when, text = said[-1]
            said[-1] = who, when, f"{text}\n{line}" if text else line
    return [(who, when, text.strip()) for who, when, text in said]
