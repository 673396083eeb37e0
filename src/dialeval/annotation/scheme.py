"""Annotation schemes: what raters see, the questions, and how many raters per item, in one TOML file.

A scheme is read from a file, or by the name of a ready one (`scheme_names`). It is validated when it is read,
and errors name the field: `scheme.toml: questions[1].when: …`. `schema_of` returns the evaluation schema of a
scheme and its dialogues.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.contexts import conversation_of
from dialeval.dialogues.segments import DEFAULT_SPLITTER, Splitter
from dialeval.errors import DataError, UsageError
from dialeval.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from dialeval.scores.signature import EvaluationSchema, Setting

Value = str | int
Unit = Literal["context", "turn", "segment", "dialogue", "pair"]
_HOME = Path(__file__).with_name("schemes")
_OURS = tuple(sorted(path.stem for path in _HOME.glob("*.toml")))
MOST_CHOICES = 40


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One possible answer. `value` is stored; a number is also its score."""

    value: Value
    label: str
    help: str = ""


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a question is asked: after certain answers, or for dialogues that have (or lack) a meta field."""

    question: str | None = None
    one_of: tuple[Value, ...] = ()
    meta: str | None = None
    present: bool = True


class SchemeQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question; its type defines the answers.

    `choice` one of `choices`, `several` any of them, `scale` a whole number from `low` to `high`, `text` free
    text, `mark` any utterances of the project's candidate list, found by searching, or none of them; with
    `choices`, those are the acts that wizards choose from in place of utterances.
    """

    name: str
    type: Literal["choice", "several", "scale", "text", "mark"]
    text: str
    help: str = ""
    required: bool = True
    choices: tuple[Choice, ...] = ()
    ordered: bool = False
    low: int = 1
    high: int = 5
    low_label: str = ""
    high_label: str = ""
    when: Condition | None = None

    @property
    def options(self) -> tuple[Choice, ...]:
        """The possible answers of a choice, of several, or of a scale."""
        if self.type != "scale":
            return self.choices
        ends = {self.low: self.low_label, self.high: self.high_label}
        numbers = range(self.low, self.high + 1)
        return tuple(Choice(value=number, label=str(number), help=ends.get(number, "")) for number in numbers)

    def choice(self, value: Value) -> Choice:
        """Return the option with this value, or one with the value as its label."""
        matching = (option for option in self.options if option.value == value)
        return next(matching, None) or Choice(value=value, label=str(value))

    def score(self, value: Value) -> float:
        """Return the score of an answer: the number itself, or the index of its choice."""
        if isinstance(value, int):
            return float(value)
        return float([choice.value for choice in self.choices].index(value))


class GoldItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An item with known answers that every rater gets, to detect careless raters."""

    dialogue: str
    turn: int | None = None
    segment: int | None = None
    answers: dict[str, tuple[Value, ...]]


class Rounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Further raters per round until one answer has a majority, and the maximum number of raters."""

    further: int = 1
    most: int = 7


class Scheme(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The unit of judgement, the questions, and how items are assigned."""

    name: str
    title: str
    unit: Unit
    instructions: str
    questions: tuple[SchemeQuestion, ...]
    of: Literal["dialogue", "turn"] = "dialogue"
    role: Literal["judge", "wizard"] = "judge"
    raters_per_item: int = 3
    items_per_rater: int | None = None
    items: int | None = None
    speaker: str | None = None
    history: int | None = None
    following: int = 0
    merge: bool = False
    show: tuple[str, ...] = ()
    splitter: Splitter = DEFAULT_SPLITTER
    gold: tuple[GoldItem, ...] = ()
    gold_minimum: float = 0.7
    rounds: Rounds | None = None
    expert_per_day: int = 20

    @property
    def marks(self) -> SchemeQuestion | None:
        """The question of type `mark`, if there is one."""
        return next((question for question in self.questions if question.type == "mark"), None)

    def question(self, name: str) -> SchemeQuestion:
        """Return the question of this name."""
        return next(question for question in self.questions if question.name == name)


def scheme_names() -> tuple[str, ...]:
    """Return the names of all ready schemes, including those of other packages.

    >>> "appropriateness" in scheme_names()
    True
    """
    return (*_OURS, *sorted(plugins("schemes", _OURS)))


def read_scheme(source: str | Path) -> Scheme:
    """Read a scheme by the name of a ready one, or from a TOML file.

    >>> scheme = read_scheme("appropriateness")
    >>> scheme.unit, [option.value for option in scheme.questions[0].options]
    ('turn', [1, 2, 3, 4, 5])
    """
    return parse_scheme(*scheme_text(source))


def scheme_text(source: str | Path) -> tuple[str, str]:
    """Return the text of a scheme and the name of its file."""
    path = _HOME / f"{source}.toml" if str(source) in _OURS else Path(source)
    if plugin := plugins("schemes", _OURS).get(str(source)):
        path = load_plugin(plugin, Path)
    if not path.exists() and path.suffix != ".toml":
        raise UsageError(
            f"no scheme {str(source)!r}; ready ones: {', '.join(scheme_names())}, or a .toml file"
        )
    with files.open_binary(path) as file:
        try:
            return file.read().decode(), path.name
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error}", file=path) from None


def parse_scheme(text: str, name: str = "scheme.toml") -> Scheme:
    """Parse a scheme in TOML; `name` is the file name in errors."""
    try:
        scheme = msgspec.convert(tomllib.loads(text), Scheme)
    except (ValueError, RecursionError) as error:  # what is not TOML, a number of 5,000 digits, a thousand [
        raise DataError(f"not TOML: {error}", file=name) from None
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        raise DataError(message, file=name, field=place.rstrip("`") or None) from None
    for problem, place in _problems(scheme):
        raise DataError(problem, file=name, field=place)
    return scheme


def _problems(scheme: Scheme) -> list[tuple[str, str]]:
    problems = []
    if not scheme.questions:
        problems.append(("at least one question is needed", "questions"))
    if scheme.raters_per_item < 1:
        problems.append(("at least 1", "raters_per_item"))
    names = [question.name for question in scheme.questions]
    if sum(question.type == "mark" for question in scheme.questions) > 1:
        problems.append(("one question of type mark at most", "questions"))
    for place, question in enumerate(scheme.questions):
        problems += [(problem, f"questions[{place}].{field}") for field, problem in _of_question(question)]
        if names.index(question.name) != place:
            problems.append((f"{question.name!r} is taken", f"questions[{place}].name"))
        if question.when is not None and question.when.question is not None:
            earlier = scheme.questions[:place]
            problems += [(p, f"questions[{place}].when") for p in _of_condition(question.when, earlier)]
        elif question.when is not None and question.when.meta is None:
            problems.append(("name a question or a meta field", f"questions[{place}].when"))
    for place, gold in enumerate(scheme.gold):
        problems += [(p, f"gold[{place}].answers") for p in _of_gold(gold, scheme)]
    if scheme.rounds is not None and scheme.questions and scheme.questions[0].type not in ("choice", "scale"):
        problems.append(("rounds need a choice or a scale as the first question", "rounds"))
    if scheme.rounds is not None and not 1 <= scheme.rounds.further <= scheme.rounds.most:
        problems.append(("further must be at least 1 and at most `most`", "rounds"))
    if scheme.unit == "pair" and scheme.questions:
        values = {choice.value for choice in scheme.questions[0].choices}
        if not {"first", "second"} <= values <= {"first", "second", "tie"}:
            problems.append(
                ("pairs are compared by a choice of first, second or tie", "questions[0].choices")
            )
    return problems


def _of_question(question: SchemeQuestion) -> list[tuple[str, str]]:
    problems = []
    if not question.name.replace("-", "_").isidentifier():
        problems.append(("name", "letters, digits, - and _ only, a letter first"))
    values = [choice.value for choice in question.choices]
    if question.type in ("choice", "several") and not 2 <= len(values) <= MOST_CHOICES:
        problems.append(("choices", f"from 2 to {MOST_CHOICES} are needed"))
    if len(set(values)) != len(values):
        problems.append(("choices", "two have the same value"))
    if len({type(value) for value in values}) > 1:
        problems.append(("choices", "values are either all numbers or all text"))
    if question.type == "mark" and any(isinstance(value, int) for value in values):
        problems.append(("choices", "acts are text"))
    if question.type == "scale" and not 1 <= question.high - question.low < MOST_CHOICES:
        problems.append(("high", f"must be above low, by less than {MOST_CHOICES}"))
    return problems


def _of_condition(when: Condition, earlier: tuple[SchemeQuestion, ...]) -> list[str]:
    asked = next((question for question in earlier if question.name == when.question), None)
    if asked is None:
        return [f"no earlier question {when.question!r}"]
    values = [choice.value for choice in asked.options]
    if not when.one_of or not set(when.one_of) <= set(values):
        return [f"one_of must name answers of {when.question!r}: {', '.join(map(str, values))}"]
    return []


def _of_gold(gold: GoldItem, scheme: Scheme) -> list[str]:
    problems = []
    for name, accepted in gold.answers.items():
        asked = next((question for question in scheme.questions if question.name == name), None)
        if asked is None or asked.type not in ("choice", "scale"):
            problems.append(f"{name!r} is no choice or scale of this scheme")
        elif not accepted or not set(accepted) <= {choice.value for choice in asked.options}:
            problems.append(f"{name!r} has other answers: {', '.join(str(o.value) for o in asked.options)}")
    return problems


def schema_of(
    scheme: Scheme, dialogues: Iterable[Dialogue] = (), *, took_part: bool = False
) -> "EvaluationSchema":
    """Return the evaluation schema of a scheme and its dialogues.

    Replies to fixed contexts name their context, and conversations with a system have the setting `dynamic`;
    with `took_part`, the raters held the conversations themselves.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Oh")]
    >>> kind = schema_of(read_scheme("coherence"), [dialogue(turns, "d1@turn-1")])
    >>> kind.metric, kind.context, kind.participation, kind.level
    ('coherence', 'static', 'bystander', 'turn')
    """
    from dialeval.scores.signature import EvaluationSchema

    unit = scheme.of if scheme.unit == "pair" else scheme.unit
    return EvaluationSchema(
        metric=", ".join(question.name for question in scheme.questions if question.type != "text")
        or "nothing",
        evaluator="human",
        context="dynamic" if took_part else _setting({_of(dialogue) for dialogue in dialogues}),
        participation="participant" if took_part else "bystander",
        level="dialogue" if unit == "dialogue" else "turn",
    )


def _of(dialogue: Dialogue) -> str:
    if "context" in dialogue.meta or conversation_of(dialogue.id) != dialogue.id:
        return "static"
    return "dynamic" if dialogue.meta.get("setting") == "dynamic" else "not said"


def _setting(settings: set[str]) -> "Setting":
    """Return the setting that all dialogues share."""
    if settings == {"static", "dynamic"}:
        return "static and dynamic"
    return "static" if settings == {"static"} else "dynamic" if settings == {"dynamic"} else "not said"
