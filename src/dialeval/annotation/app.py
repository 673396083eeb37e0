"""The application of an annotation project: all its routes, and the pages that raters see."""

import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from dialeval.annotation import assignment, pages
from dialeval.annotation.answers import fields_of, parse, swapped
from dialeval.annotation.assignment import Assignment
from dialeval.annotation.coordinator import CoordinatorPages
from dialeval.annotation.items import ItemView, is_swapped, item_view
from dialeval.annotation.project import COORDINATOR, AnnotationProject
from dialeval.annotation.store import DiskFullError
from dialeval.annotation.web import Page, PersonalLinks, Refusal, RequestGuard, Visit

RATERS = ("rater", "expert")
_MOST_SHOWN = 300
_WORD = re.compile(r"\w+")
_LONGEST_QUERY = 200
_FULL = "Not saved: the server's disk is full. Leave this page open, tell the coordinator, and send it again."


def make_app(
    project: AnnotationProject, hosts: Collection[str] = (), *, is_secure: bool = False
) -> RequestGuard:
    """Return the application of a project."""
    home = {"rater": "/rate", "expert": "/rate", COORDINATOR: "/study"}
    full = (507, "The disk is full", "Nothing was changed. Tell the coordinator.")
    links = PersonalLinks(
        project.people,
        project.secret,
        pages.refusal,
        home,
        hosts,
        is_secure,
        {DiskFullError: full},
    )
    rating, coordinating = RaterPages(project), CoordinatorPages(project)
    return links.app(
        [
            Page("/", lambda visit: RedirectResponse(home[visit.person.role], 303), (*RATERS, COORDINATOR)),
            Page("/rate", rating.go_on, RATERS),
            Page("/rate/{place:int}", rating.show, RATERS),
            Page("/rate/{place:int}", rating.take, RATERS, "POST"),
            Page("/undo", rating.undo, RATERS, "POST"),
            *coordinating.pages(),
        ],
        pages.public(),
    )


class RaterPages:
    """The pages that a rater sees, and the forms that come back."""

    def __init__(self, project: AnnotationProject) -> None:
        self.project = project

    def go_on(self, visit: Visit) -> Response:
        """Redirect to the first open item, or show that all is done."""
        rater = visit.person.name
        if visit.person.role == "expert":
            assignment.top_up(self.project, rater)
        place = assignment.current(self.project, rater)
        if place is not None:
            return RedirectResponse(f"/rate/{place}", 303)
        progress = assignment.progress(self.project, rater)
        return pages.form_page("done", visit, self.project.scheme, progress=progress)

    def show(self, visit: Visit) -> Response:
        """Show one item."""
        assigned = self._assigned(visit)
        fields = fields_of(self.project.scheme, self._as_shown(visit, assigned, assigned.answers))
        return self._page(visit, assigned, fields, {})

    def take(self, visit: Visit) -> Response:
        """Take a form: an answer, a search among the candidates, or that the rater cannot judge."""
        assigned, scheme, action = self._assigned(visit), self.project.scheme, visit.first("action")
        seen = self._view(visit, assigned)
        answers, missing = parse(scheme, visit.fields, seen.meta, len(self.project.candidates))
        answers = self._as_shown(visit, assigned, answers)
        if action == "search":
            assignment.keep_draft(self.project, visit.person.name, assigned, answers)
            query = urlencode({"q": visit.first("q")[:_LONGEST_QUERY]})
            return RedirectResponse(f"/rate/{assigned.place}?{query}#q", 303)
        if missing and action != "skip":
            return self._page(visit, assigned, visit.fields, missing, status=422)
        try:
            assignment.answer(
                self.project,
                visit.person.name,
                assigned,
                None if action == "skip" else answers,
                visit.first("ticket")[:64] or secrets.token_hex(8),
                _seconds(visit.first("shown")),
            )
        except DiskFullError:
            return self._page(visit, assigned, visit.fields, {}, status=507, alert=_FULL)
        following = assignment.current(self.project, visit.person.name)
        return RedirectResponse("/rate" if following is None else f"/rate/{following}", 303)

    def undo(self, visit: Visit) -> Response:
        """Open the last answer again."""
        place = assignment.undo(self.project, visit.person.name)
        return RedirectResponse("/rate" if place is None else f"/rate/{place}", 303)

    def _assigned(self, visit: Visit) -> Assignment:
        assigned = assignment.assignment_at(self.project, visit.person.name, visit.path["place"])
        if assigned is None:
            raise Refusal(404, "There is no such item", "It may have been handed to somebody else.")
        return assigned

    def _as_shown(self, visit: Visit, assigned: Assignment, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Exchange the sides of a pair where this rater sees it the other way round."""
        is_pair = self.project.items[assigned.item].other is not None
        if is_pair and is_swapped(visit.person.name, assigned.item, self.project.seed):
            return swapped(self.project.scheme, answers)
        return dict(answers)

    def _view(self, visit: Visit, assigned: Assignment) -> ItemView:
        return item_view(self.project, self.project.items[assigned.item], assigned.item, visit.person.name)

    def _page(
        self,
        visit: Visit,
        assigned: Assignment,
        fields: Mapping[str, Sequence[str]],
        missing: Mapping[int, str],
        *,
        status: int = 200,
        alert: str = "",
    ) -> Response:
        scheme, seen = self.project.scheme, self._view(visit, assigned)
        asked = pages.questions_of(scheme, fields, missing, seen.meta)
        query = (visit.first("q") or visit.query.get("q", ""))[:_LONGEST_QUERY]
        found: list[tuple[int, str]] = []
        if scheme.marks is not None:
            marked = fields.get(f"q{scheme.questions.index(scheme.marks)}", ())
            found = find(self.project.candidates, query, marked, _MOST_SHOWN)
        return pages.form_page(
            "item",
            visit,
            scheme,
            status,
            assigned=assigned,
            view=seen,
            questions=asked,
            progress=assignment.progress(self.project, visit.person.name),
            candidates=found,
            n_candidates=len(self.project.candidates),
            query=query,
            ticket=visit.first("ticket") if status != 200 else secrets.token_hex(8),
            shown=visit.first("shown") if status != 200 else f"{time.time():.1f}",
            alert=alert,
        )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return time.time()


def find(
    candidates: Sequence[str], query: str, marked: Collection[str] = (), most: int = 300
) -> list[tuple[int, str]]:
    """Return (number, utterance): what is marked already, then what has most of the words of the query.

    A word of the query may be the beginning of a word of the utterance. Without a query everything fits.

    >>> find(["Where is it?", "Hello there!", "It is here."], "here is")
    [(2, 'It is here.'), (0, 'Where is it?')]
    """
    words = [word.casefold() for word in _WORD.findall(query)]
    first, rest = [], []
    for number, text in enumerate(candidates):
        if str(number) in marked:
            first.append((number, text))
            continue
        parts = _WORD.findall(text.casefold()) if words else []
        hits = sum(any(part.startswith(word) for part in parts) for word in words)
        if hits or not words:
            rest.append((-hits, number, text))
    rest.sort(key=lambda one: one[:2])
    return [*first, *((number, text) for _, number, text in rest)][: max(most, len(first))]
