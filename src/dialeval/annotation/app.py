"""The application that raters and the coordinator open: its pages, and the rater's part of them."""

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from dialeval.annotation import pages, submission
from dialeval.annotation.answers import fields_of, parse, turned
from dialeval.annotation.assignment import is_swapped
from dialeval.annotation.desk import Desk
from dialeval.annotation.search import find
from dialeval.annotation.store import FullError
from dialeval.annotation.study import COORDINATOR, Study
from dialeval.annotation.submission import Seat
from dialeval.annotation.transcript import View, view
from dialeval.annotation.web import Door, Guard, Page, Refusal, Visit

RATERS = ("rater", "expert")
_MOST_SHOWN = 300
_LONGEST_QUERY = 200
_FULL = "Not saved: the server's disk is full. Leave this page open, tell the coordinator, and send it again."


def make_app(study: Study, hosts: Collection[str] = (), *, is_secure: bool = False) -> Guard:
    """Return the application of a study."""
    home = {"rater": "/rate", "expert": "/rate", COORDINATOR: "/study"}
    door = Door(study.people, study.secret, study.name, pages.refusal, home, hosts, is_secure)
    rating, desk = Rating(study), Desk(study)
    return door.app(
        [
            Page("/", lambda visit: RedirectResponse(home[visit.person.role], 303), (*RATERS, COORDINATOR)),
            Page("/rate", rating.go_on, RATERS),
            Page("/rate/{place:int}", rating.show, RATERS),
            Page("/rate/{place:int}", rating.take, RATERS, "POST"),
            Page("/undo", rating.undo, RATERS, "POST"),
            *desk.pages(),
        ],
        pages.public(),
    )


class Rating:
    """What a rater sees and sends."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def go_on(self, visit: Visit) -> Response:
        """Lead to where the rater was, or say that all is done."""
        rater = visit.person.name
        if visit.person.role == "expert":
            self._guarded(lambda: submission.top_up(self.study, rater))
        place = submission.current(self.study, rater)
        if place is not None:
            return RedirectResponse(f"/rate/{place}", 303)
        return pages.page(
            "done",
            scheme=self.study.scheme,
            person=visit.person,
            code=visit.code,
            progress=submission.progress(self.study, rater),
        )

    def show(self, visit: Visit) -> Response:
        """Show one item."""
        seat = self._seat(visit)
        fields = fields_of(self.study.scheme, self._turned(visit, seat, seat.answers))
        return self._page(visit, seat, fields, {})

    def take(self, visit: Visit) -> Response:
        """Take a form: an answer, a search for candidates, or that the rater cannot judge."""
        seat, scheme, action = self._seat(visit), self.study.scheme, visit.first("action")
        seen = self._view(visit, seat)
        answers, missing = parse(scheme, visit.fields, seen.meta, len(self.study.candidates))
        answers = self._turned(visit, seat, answers)
        if action == "search":
            self._guarded(lambda: submission.keep_draft(self.study, visit.person.name, seat, answers))
            query = urlencode({"q": visit.first("q")[:_LONGEST_QUERY]})
            return RedirectResponse(f"/rate/{seat.place}?{query}#q", 303)
        if missing and action != "skip":
            return self._page(visit, seat, visit.fields, missing, status=422)
        try:
            submission.answer(
                self.study,
                visit.person.name,
                seat,
                None if action == "skip" else answers,
                visit.first("ticket")[:64] or secrets.token_hex(8),
                _seconds(visit.first("shown")),
            )
        except FullError:
            return self._page(visit, seat, visit.fields, {}, status=507, alert=_FULL)
        following = submission.current(self.study, visit.person.name)
        return RedirectResponse("/rate" if following is None else f"/rate/{following}", 303)

    def undo(self, visit: Visit) -> Response:
        """Open the last answer again."""
        place = self._guarded(lambda: submission.undo(self.study, visit.person.name))
        return RedirectResponse("/rate" if place is None else f"/rate/{place}", 303)

    def _seat(self, visit: Visit) -> Seat:
        seat = submission.look(self.study, visit.person.name, visit.path["place"])
        if seat is None:
            raise Refusal(404, "There is no such item", "It may have been handed to somebody else.")
        return seat

    @staticmethod
    def _guarded(change: Any) -> Any:
        try:
            return change()
        except FullError:
            raise Refusal(507, "The disk is full", "Nothing was changed. Tell the coordinator.") from None

    def _turned(self, visit: Visit, seat: Seat, answers: Mapping[str, Any]) -> dict[str, Any]:
        swapped = self.study.items[seat.item].other is not None and is_swapped(
            visit.person.name, seat.item, self.study.seed
        )
        return turned(self.study.scheme, answers) if swapped else dict(answers)

    def _view(self, visit: Visit, seat: Seat) -> View:
        return view(self.study, self.study.items[seat.item], seat.item, visit.person.name)

    def _page(
        self,
        visit: Visit,
        seat: Seat,
        fields: Mapping[str, Sequence[str]],
        missing: Mapping[int, str],
        *,
        status: int = 200,
        alert: str = "",
    ) -> Response:
        scheme, seen = self.study.scheme, self._view(visit, seat)
        asked = pages.questions_of(scheme, fields, missing, seen.meta)
        query = (visit.first("q") or visit.query.get("q", ""))[:_LONGEST_QUERY]
        found: list[tuple[int, str]] = []
        if scheme.marks is not None:
            marked = fields.get(f"q{scheme.questions.index(scheme.marks)}", ())
            found = find(self.study.candidates, query, marked, _MOST_SHOWN)
        return pages.page(
            "item",
            status,
            scheme=scheme,
            person=visit.person,
            code=visit.code,
            seat=seat,
            view=seen,
            questions=asked,
            progress=submission.progress(self.study, visit.person.name),
            candidates=found,
            n_candidates=len(self.study.candidates),
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
