"""The coordinator's pages: progress, agreement, disagreements, rejections, decisions, exports.

Statistics and tables are imported when the coordinator first looks: raters need not wait for them to start.
"""

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response

from dialeval.annotation import assignment, pages
from dialeval.annotation.answers import clean_words, fields_of, parse
from dialeval.annotation.earlier import overlaps
from dialeval.annotation.items import filled_meta, side_by_side
from dialeval.annotation.project import COORDINATOR, AnnotationProject, Snapshot, snapshot
from dialeval.annotation.web import Page, Refusal, Visit

if TYPE_CHECKING:
    from dialeval.annotation.monitoring import QuestionAgreement

_ROWS = 50
_KINDS = {".parquet": "application/vnd.apache.parquet", ".csv": "text/csv", ".xml": "application/xml"}


class CoordinatorPages:
    """The pages of the coordinator, and the forms that come back."""

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
        wanted = visit.query.get("show", "")
        if wanted not in counts:
            wanted = next((state for state, count in counts.items() if count), "open")
        chosen = [row for row in rows if row.state == wanted]
        start = visit.query.get("from", "0")
        first = int(start) if start.isdecimal() else 0
        return pages.form_page(
            "study",
            visit,
            self.project.scheme,
            raters=monitoring.rater_rows(seen),
            counts=counts,
            meanings=monitoring.STATES,
            wanted=wanted,
            rows=chosen[first : first + _ROWS],
            first=first,
            more=first + _ROWS if first + _ROWS < len(chosen) else None,
            n_items=len(rows),
            n_settled=counts["settled"] + counts["adjudicated"],
            n_answers=sum(one.state == "done" for one in seen.given),
            agreements=self._measured(seen),
            majority=monitoring.expert_accuracy(seen).get("majority"),
            overlaps=overlaps(self.project),
            kind=asdict(self.project.schema),
            exports=export.exports_of(self.project.scheme),
        )

    def _measured(self, seen: Snapshot) -> list["QuestionAgreement"]:
        """Return agreement, measured again only when something has happened."""
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
        given: list[Any] = [
            (one, pages.given_words(scheme, one, self.project.candidates))
            for one in seen.given
            if one.item == number
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
            given=given,
            reasons=self._reasons(number),
            questions=pages.questions_of(scheme, fields, missing or {}, meta),
            candidates=self._marked(seen, number),
        )

    def _reasons(self, number: int) -> dict[str, str]:
        with self.project.store.reading() as db:
            return assignment.reasons(db, number)

    def _marked(self, seen: Snapshot, number: int) -> list[tuple[int, str]]:
        """Return the candidates that anybody marked at an item, for a decision to choose among."""
        question = self.project.scheme.marks
        if question is None:
            return []
        given = [one.answers for one in seen.given if one.item == number]
        marked = {
            place for one in [*given, seen.verdicts.get(number, {})] for place in one.get(question.name, ())
        }
        return [(place, self.project.candidates[place]) for place in sorted(marked)]

    def reject(self, visit: Visit) -> Response:
        """Exclude an answer and assign the item to another rater."""
        number, key = self._number(visit), visit.first("rater")
        found = (one.rater for one in snapshot(self.project).given if one.item == number and one.key == key)
        rater, reason, done = next(found, None), clean_words(visit.first("reason"))[:500], False
        if rater is not None:
            with self.project.store.writing() as db:
                done = assignment.reject(db, self.project.scheme, self.project.seed, number, rater, reason)
        if not done:
            raise Refusal(409, "Nothing to reject", "This rater has no answer to this item any more.")
        return RedirectResponse(f"/study/item/{number}", 303)

    def adjudicate(self, visit: Visit) -> Response:
        """Save the coordinator's decision, beside the raters' answers and not in their place."""
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
