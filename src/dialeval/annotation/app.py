"""The application of an annotation project: its routes, the pages of raters and of the coordinator."""

import json
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from dialeval.annotation import assignment, pages
from dialeval.annotation.answers import clean_words, fields_of, parse, swap_sides
from dialeval.annotation.assignment import Assignment
from dialeval.annotation.items import ItemView, filled_meta, is_swapped, item_view, side_by_side
from dialeval.annotation.project import COORDINATOR, AnnotationProject, Snapshot, snapshot
from dialeval.annotation.store import DiskFullError
from dialeval.annotation.web import Page, PersonalLinks, Refusal, RequestGuard, Visit

if TYPE_CHECKING:
    from dialeval.annotation.monitoring import QuestionAgreement

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
        project.people, project.secret, pages.refusal, home, hosts, is_secure, {DiskFullError: full}
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
    """The pages of a rater, and their forms."""

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
        """Process a form: an answer, a search among the candidates, or a skip."""
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
            raise Refusal(404, "There is no such item", "It may have been assigned to another rater.")
        return assigned

    def _as_shown(self, visit: Visit, assigned: Assignment, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Swap the sides of a pair if this rater sees it in reverse order."""
        is_pair = self.project.items[assigned.item].other is not None
        if is_pair and is_swapped(visit.person.name, assigned.item, self.project.seed):
            return swap_sides(self.project.scheme, answers)
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
        candidates: list[tuple[int, str]] = []
        if scheme.marks is not None:
            marked = fields.get(f"q{scheme.questions.index(scheme.marks)}", ())
            candidates = find(self.project.candidates, query, marked, _MOST_SHOWN)
        return pages.form_page(
            "item",
            visit,
            scheme,
            status,
            assigned=assigned,
            view=seen,
            questions=asked,
            progress=assignment.progress(self.project, visit.person.name),
            candidates=candidates,
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
    """Return (number, utterance): those marked already, then those with most words of the query.

    A query word may be a prefix of a word of the utterance. Without a query all utterances match.

    >>> find(["Where is it?", "Hello there!", "It is here."], "here is")
    [(2, 'It is here.'), (0, 'Where is it?')]
    """
    query_words = [word.casefold() for word in _WORD.findall(query)]
    first, rest = [], []
    for number, text in enumerate(candidates):
        if str(number) in marked:
            first.append((number, text))
            continue
        parts = _WORD.findall(text.casefold()) if query_words else []
        hits = sum(any(part.startswith(word) for part in parts) for word in query_words)
        if hits or not query_words:
            rest.append((-hits, number, text))
    rest.sort(key=lambda entry: entry[:2])
    return [*first, *((number, text) for _, number, text in rest)][: max(most, len(first))]


# --- the coordinator: progress, agreement, disagreements, rejections, decisions, exports --------------------
# Statistics and tables are imported on the coordinator's first visit, so that raters need not wait for them.

_ROWS = 50
_KINDS = {".parquet": "application/vnd.apache.parquet", ".csv": "text/csv", ".xml": "application/xml"}


class CoordinatorPages:
    """The pages of the coordinator, and their forms."""

    def __init__(self, project: AnnotationProject) -> None:
        self.project = project
        self._agreements: tuple[int, list[QuestionAgreement]] = (-1, [])

    def pages(self) -> list[Page]:
        """Return the routes."""
        only = (COORDINATOR,)
        return [
            Page("/study", self.show, only),
            Page("/study/item/{item:int}", self.show_item, only),
            Page("/study/item/{item:int}/reject", self.reject, only, "POST"),
            Page("/study/item/{item:int}/adjudicate", self.adjudicate, only, "POST"),
            Page("/study/export/{name}", self.export, only),
        ]

    def show(self, visit: Visit) -> Response:
        """Show agreement, raters, exports, and the items of one state."""
        from dialeval.annotation import export, monitoring

        seen = snapshot(self.project)
        rows = monitoring.item_rows(seen)
        counts = {state: sum(row.state == state for row in rows) for state in monitoring.STATES}
        state = visit.query.get("show", "")
        if state not in counts:
            state = next((state for state, count in counts.items() if count), "open")
        chosen = [row for row in rows if row.state == state]
        start = visit.query.get("from", "0")
        first = int(start) if start.isdecimal() else 0
        return pages.form_page(
            "study",
            visit,
            self.project.scheme,
            raters=monitoring.rater_rows(seen),
            counts=counts,
            meanings=monitoring.STATES,
            wanted=state,
            rows=chosen[first : first + _ROWS],
            first=first,
            more=first + _ROWS if first + _ROWS < len(chosen) else None,
            n_items=len(rows),
            n_settled=counts["settled"] + counts["adjudicated"],
            n_answers=sum(answer.state == "done" for answer in seen.rater_answers),
            agreements=self._measured(seen),
            majority=monitoring.expert_accuracy(seen).get("majority"),
            overlaps=monitoring.overlaps(self.project),
            kind=asdict(self.project.schema),
            exports=export.exports_of(self.project.scheme),
        )

    def _measured(self, seen: Snapshot) -> list["QuestionAgreement"]:
        """Return agreement, recomputed only after a change."""
        from dialeval.annotation.monitoring import agreements

        with self.project.store.reading() as db:
            last: int = db.execute("SELECT coalesce(max(number), 0) FROM log").fetchone()[0]
        if self._agreements[0] != last:
            self._agreements = (last, agreements(seen))
        return self._agreements[1]

    def show_item(self, visit: Visit, missing: dict[int, str] | None = None) -> Response:
        """Show one item with everybody's answers."""
        from dialeval.annotation import monitoring

        number = self._number(visit)
        seen = snapshot(self.project)
        scheme, item = self.project.scheme, seen.items[number]
        meta = filled_meta(self.project.dialogue(item.place[0]))
        rater_answers: list[Any] = [
            (answer, pages.answer_texts(scheme, answer, self.project.candidates))
            for answer in seen.rater_answers
            if answer.item == number
        ]
        fields = visit.fields or fields_of(scheme, seen.verdicts.get(number, {}))
        return pages.form_page(
            "study_item",
            visit,
            scheme,
            422 if missing else 200,
            row=monitoring.item_rows(seen)[number],
            name=monitoring.name_of(seen, number),
            settled=monitoring.settled(seen, number, seen.by_item().get(number, [])),
            dialogues=side_by_side(self.project, item.sides),
            given=rater_answers,
            reasons=self._reasons(number),
            questions=pages.questions_of(scheme, fields, missing or {}, meta),
            candidates=self._marked(seen, number),
        )

    def _reasons(self, number: int) -> dict[str, str]:
        with self.project.store.reading() as db:
            return assignment.reasons(db, number)

    def _marked(self, seen: Snapshot, number: int) -> list[tuple[int, str]]:
        """Return the candidates that anybody marked for an item, as options for adjudication."""
        question = self.project.scheme.marks
        if question is None:
            return []
        answers = [answer.answers for answer in seen.rater_answers if answer.item == number]
        marked = {
            place
            for answer in [*answers, seen.verdicts.get(number, {})]
            for place in answer.get(question.name, ())
        }
        return [(place, self.project.candidates[place]) for place in sorted(marked)]

    def reject(self, visit: Visit) -> Response:
        """Exclude an answer and assign the item to another rater."""
        number, key = self._number(visit), visit.first("rater")
        raters = (
            answer.rater
            for answer in snapshot(self.project).rater_answers
            if answer.item == number and answer.key == key
        )
        rater, reason, done = next(raters, None), clean_words(visit.first("reason"))[:500], False
        if rater is not None:
            with self.project.store.writing() as db:
                done = assignment.reject(db, self.project.scheme, self.project.seed, number, rater, reason)
        if not done:
            raise Refusal(409, "Nothing to reject", "This rater has no answer to this item any more.")
        return RedirectResponse(f"/study/item/{number}", 303)

    def adjudicate(self, visit: Visit) -> Response:
        """Save the coordinator's decision in addition to the raters' answers."""
        number = self._number(visit)
        meta = filled_meta(self.project.dialogue(self.project.items[number].place[0]))
        answers, missing = parse(self.project.scheme, visit.fields, meta, len(self.project.candidates))
        if missing:
            return self.show_item(visit, missing)
        body = json.dumps(answers, ensure_ascii=False)
        with self.project.store.writing() as db:
            assignment.log_action(db, COORDINATOR, number, "adjudicate", body)
            db.execute(
                "INSERT INTO verdicts VALUES (?, ?, ?) "
                "ON CONFLICT (item) DO UPDATE SET body = excluded.body, at = excluded.at",
                (number, body, time.time()),
            )
        return RedirectResponse(f"/study/item/{number}", 303)

    def export(self, visit: Visit) -> Response:
        """Return one export, of one consistent state."""
        from dialeval.annotation import export

        seen, name = snapshot(self.project), visit.path["name"]
        if name not in export.exports_of(self.project.scheme):
            raise Refusal(404, "There is no such export", "")
        kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), "application/json")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(export.rendered(seen, name), media_type=kind, headers=headers)

    def _number(self, visit: Visit) -> int:
        number: int = visit.path["item"]
        if number >= len(self.project.items):
            raise Refusal(404, "There is no such item", "")
        return number
