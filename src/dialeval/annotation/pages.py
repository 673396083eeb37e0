"""Pages rendered from templates: all text from data is escaped, and nothing is loaded from elsewhere."""

import functools
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from dialeval.annotation.answers import NONE, answer_text
from dialeval.annotation.project import RaterAnswer
from dialeval.annotation.scheme import Scheme, SchemeQuestion
from dialeval.annotation.web import Refusal, Visit
from dialeval.dialogues.visibility import templates

if TYPE_CHECKING:
    from dialeval.statistics import Estimate

_KEYS = "1234567890qwertiop"  # u goes back, s saves
_FAILED = "Please try again, and tell the coordinator if it happens again."
STATIC = {"/style.css": ("style.css", "text/css"), "/app.js": ("app.js", "text/javascript")}


def public() -> dict[str, tuple[bytes, str]]:
    """Return the style sheet and the script, which need no personal link."""
    folder = files("dialeval.annotation") / "static"
    return {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in STATIC.items()}


def page(template: str, status: int = 200, **context: Any) -> Response:
    """Render a page."""
    text = environment().get_template(f"{template}.html.jinja").render(context)
    return Response(text.encode("utf-8", "replace"), status, media_type="text/html; charset=utf-8")


def form_page(template: str, visit: Visit, scheme: Scheme, status: int = 200, **context: Any) -> Response:
    """Render a page with forms: who sees it, the code that their forms carry, and the scheme."""
    return page(template, status, person=visit.person, code=visit.code, scheme=scheme, **context)


def refusal(refused: Refusal) -> Response:
    """Render the page of a refusal."""
    message = refused.message or (_FAILED if refused.status == 500 else "")
    return page("message", refused.status, title=refused.title, message=message)


def keys_of(question: SchemeQuestion) -> list[str]:
    """Return the keyboard shortcut of each option: its own digit if all values are digits, else by position.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> keys_of(read_scheme("turn-quality").questions[0]), keys_of(read_scheme("pairwise").questions[0])
    (['0', '1', '2'], ['1', '2', '3'])
    """
    values = [option.value for option in question.options]
    if all(isinstance(value, int) and 0 <= value <= 9 for value in values):
        return [str(value) for value in values]
    return [_KEYS[place] if place < len(_KEYS) else "" for place in range(len(values))]


def questions_of(
    scheme: Scheme, fields: Mapping[str, Sequence[str]], missing: Mapping[int, str], meta: Collection[str]
) -> list[dict[str, Any]]:
    """Return the questions for the template of a form, with the current answers.

    Questions whose condition on the dialogue fails are left out; conditions on answers are left to the page.
    """
    return [
        _question_of(scheme, place, question, fields, missing)
        for place, question in enumerate(scheme.questions)
        if question.when is None
        or question.when.meta is None
        or (question.when.meta in meta) == question.when.present
    ]


def _question_of(
    scheme: Scheme,
    place: int,
    question: SchemeQuestion,
    fields: Mapping[str, Sequence[str]],
    missing: Mapping[int, str],
) -> dict[str, Any]:
    keys, chosen = keys_of(question), set(fields.get(f"q{place}", ()))
    return {
        "field": f"q{place}",
        "question": question,
        "missing": missing.get(place),
        "condition": _condition_of(scheme, question),
        "options": [
            {"number": number, "choice": option, "key": keys[number], "chosen": str(number) in chosen}
            for number, option in enumerate(question.options)
        ],
        "text": next(iter(fields.get(f"q{place}", ())), ""),
        "none": bool(fields.get(f"q{place}.{NONE}")),
        "chosen": chosen,
        "is_short": _is_short(question),
    }


def _condition_of(scheme: Scheme, question: SchemeQuestion) -> dict[str, str] | None:
    """Return the answers that a question depends on, by index for the script and as text for people."""
    when = question.when
    if when is None or when.question is None:
        return None
    asked = scheme.question(when.question)
    numbers = [number for number, option in enumerate(asked.options) if option.value in when.one_of]
    labels = " / ".join(asked.options[number].label for number in numbers)
    return {
        "field": f"q{scheme.questions.index(asked)}",
        "wanted": " ".join(map(str, numbers)),
        "words": f"{asked.text} {labels}",
    }


def _is_short(question: SchemeQuestion) -> bool:
    """Return whether all options fit in one row."""
    labels = [choice.label + choice.help for choice in question.choices]
    return 1 < len(labels) <= 3 and sum(map(len, labels)) <= 24


def figure(estimate: "Estimate | None") -> str:
    """Return an estimate with its interval as text, or the reason that it is undefined.

    >>> from dialeval.statistics import Estimate
    >>> figure(Estimate(0.5312, 40, 0.301, 0.7)), figure(Estimate.undefined("one rater"))
    ('.531 [.301, .700]', '– (one rater)')
    """  # noqa: RUF002
    if estimate is None:
        return ""
    if estimate.value is None:
        return f"– ({estimate.reason})"  # noqa: RUF001
    value = _short(estimate.value)
    if estimate.low is None or estimate.high is None:
        return value + (f" ({estimate.reason})" if estimate.reason else "")
    return f"{value} [{_short(estimate.low)}, {_short(estimate.high)}]"


def _short(value: float) -> str:
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def answer_texts(scheme: Scheme, answer: RaterAnswer, candidates: Sequence[str]) -> list[tuple[str, str]]:
    """Return each answer of a rater as text, with its question."""
    asked = [question for question in scheme.questions if question.name in answer.answers]
    return [
        (question.name, answer_text(question, answer.answers[question.name], candidates))
        for question in asked
    ]


def kept(text: str) -> Any:
    r"""Return text for a field of a form: escaped, but with control characters as they are.

    >>> str(kept("a\x1b <b>\r"))
    'a\x1b &lt;b&gt;&#13;'
    """
    from markupsafe import Markup, escape

    return Markup(str(escape(text)).replace("\r", "&#13;"))  # noqa: S704


@functools.cache
def environment() -> Any:
    """Return the Jinja environment: escaping is on, an undefined name is an error."""
    jinja = templates("dialeval.annotation")
    jinja.filters["figure"] = figure
    jinja.filters["kept"] = kept
    return jinja
