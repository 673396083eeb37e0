"""The coordinator's desk: progress, agreement, disagreements, rejections, exports.

Statistics and tables are imported when the coordinator first looks: raters need not wait for them to start.
"""

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response

from dialeval.annotation import pages, seats
from dialeval.annotation.answers import clean_words, fields_of, parse
from dialeval.annotation.earlier import overlaps
from dialeval.annotation.snapshot import Snapshot, snapshot
from dialeval.annotation.store import FullError
from dialeval.annotation.study import COORDINATOR, Study
from dialeval.annotation.transcript import Talk, lines_of
from dialeval.annotation.web import Page, Refusal, Visit

if TYPE_CHECKING:
    from dialeval.annotation.agreement import Agreement

_ROWS = 50
_KINDS = {".parquet": "application/vnd.apache.parquet", ".csv": "text/csv", ".xml": "application/xml"}


class Desk:
    """What the coordinator sees and does."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._agreements: tuple[int, list[Agreement]] = (-1, [])

    def pages(self) -> list[Page]:
        """Return the pages of the desk."""
        only = (COORDINATOR,)
        return [
            Page("/study", self.show, only),
            Page("/study/item/{item:int}", self.show_item, only),
            Page("/study/item/{item:int}/reject", self.reject, only, "POST"),
            Page("/study/item/{item:int}/adjudicate", self.adjudicate, only, "POST"),
            Page("/study/export/{name}", self.export, only),
        ]

    def show(self, visit: Visit) -> Response:
        """Show everything at once, and the items of one state."""
        from dialeval.annotation import export, overview
        from dialeval.annotation.agreement import expert_accuracy

        seen = snapshot(self.study)
        rows = overview.item_rows(seen)
        counts = {state: sum(row.state == state for row in rows) for state in overview.STATES}
        wanted = visit.query.get("show", "")
        if wanted not in counts:
            wanted = next((state for state, count in counts.items() if count), "open")
        chosen = [row for row in rows if row.state == wanted]
        first = max(0, int(visit.query.get("from", "0")) if visit.query.get("from", "0").isdecimal() else 0)
        raters = overview.rater_rows(seen)
        return pages.page(
            "study",
            scheme=self.study.scheme,
            person=visit.person,
            code=visit.code,
            raters=raters,
            counts=counts,
            meanings=overview.STATES,
            wanted=wanted,
            rows=chosen[first : first + _ROWS],
            first=first,
            more=first + _ROWS if first + _ROWS < len(chosen) else None,
            n_items=len(rows),
            n_settled=counts["settled"] + counts["adjudicated"],
            n_answers=sum(one.state == "done" for one in seen.given),
            agreements=self._measured(seen),
            majority=expert_accuracy(seen).get("majority"),
            overlaps=overlaps(self.study),
            kind=asdict(self.study.schema),
            exports=export.names_for(seen),
        )

    def _measured(self, seen: Snapshot) -> list["Agreement"]:
        """Measure again only when something has happened."""
        from dialeval.annotation.agreement import agreements

        with self.study.store.reading() as db:
            last: int = db.execute("SELECT coalesce(max(number), 0) FROM log").fetchone()[0]
        if self._agreements[0] != last:
            self._agreements = (last, agreements(seen))
        return self._agreements[1]

    def show_item(self, visit: Visit, missing: dict[int, str] | None = None) -> Response:
        """Show one item with everybody's answers."""
        from dialeval.annotation import overview

        number = self._number(visit)
        seen = snapshot(self.study)
        scheme, item = self.study.scheme, seen.items[number]
        dialogue = self.study.dialogue(item.place[0])
        meta = [key for key, value in dialogue.meta.items() if value]
        talks = [Talk(lines_of(dialogue, item.place, scheme))]
        if item.other is not None:
            other = Talk(lines_of(self.study.dialogue(item.other[0]), item.other, scheme), "Second")
            talks = [Talk(talks[0].lines, "First"), other]
        given: list[Any] = [
            (one, pages.given_words(scheme, one, self.study.candidates))
            for one in seen.given
            if one.item == number
        ]
        fields = visit.fields or fields_of(scheme, seen.verdicts.get(number, {}))
        return pages.page(
            "study_item",
            422 if missing else 200,
            scheme=scheme,
            person=visit.person,
            code=visit.code,
            row=overview.item_rows(seen)[number],
            name=overview.name_of(seen, number),
            settled=overview.settled(seen, number, seen.by_item().get(number, [])),
            talks=talks,
            given=given,
            reasons=self._reasons(number),
            questions=pages.questions_of(scheme, fields, missing or {}, meta),
            candidates=self._marked(seen, number),
        )

    def _reasons(self, number: int) -> dict[str, str]:
        with self.study.store.reading() as db:
            return seats.reasons(db, number)

    def _marked(self, seen: Snapshot, number: int) -> list[tuple[int, str]]:
        """Return what anybody marked at an item: the candidates a decision chooses among."""
        question = self.study.scheme.marks
        if question is None:
            return []
        given = [one.answers for one in seen.given if one.item == number]
        marked = {
            place for one in [*given, seen.verdicts.get(number, {})] for place in one.get(question.name, ())
        }
        return [(place, self.study.candidates[place]) for place in sorted(marked)]

    def reject(self, visit: Visit) -> Response:
        """Take an answer out and hand the item to another rater."""
        number, key = self._number(visit), visit.first("rater")
        found = (one.rater for one in snapshot(self.study).given if one.item == number and one.key == key)
        rater, reason, done = next(found, None), clean_words(visit.first("reason"))[:500], False
        if rater is not None:
            with self._writing() as db:
                done = seats.reject(db, self.study.scheme, self.study.seed, number, rater, reason)
        if not done:
            raise Refusal(409, "Nothing to reject", "This rater has no answer to this item any more.")
        return RedirectResponse(f"/study/item/{number}", 303)

    def adjudicate(self, visit: Visit) -> Response:
        """Keep the coordinator's own decision; it stands beside the raters' answers, not in their place."""
        number = self._number(visit)
        dialogue = self.study.dialogue(self.study.items[number].place[0])
        meta = [name for name, value in dialogue.meta.items() if value]
        answers, missing = parse(self.study.scheme, visit.fields, meta, len(self.study.candidates))
        if missing:
            return self.show_item(visit, missing)
        body = json.dumps(answers, ensure_ascii=False)
        with self._writing() as db:
            seats.note(db, COORDINATOR, number, "adjudicate", body)
            db.execute(
                "INSERT INTO verdicts VALUES (?, ?, ?) "
                "ON CONFLICT (item) DO UPDATE SET body = excluded.body, at = excluded.at",
                (number, body, time.time()),
            )
        return RedirectResponse(f"/study/item/{number}", 303)

    def export(self, visit: Visit) -> Response:
        """Give away one consistent state as a file."""
        from dialeval.annotation import export

        seen, name = snapshot(self.study), visit.path["name"]
        if name not in export.names_for(seen):
            raise Refusal(404, "There is no such export", "")
        kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), "application/json")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(export.rendered(seen, name), media_type=kind, headers=headers)

    def _number(self, visit: Visit) -> int:
        number: int = visit.path["item"]
        if number >= len(self.study.items):
            raise Refusal(404, "There is no such item", "")
        return number

    def _writing(self) -> Any:
        import contextlib

        @contextlib.contextmanager
        def guarded() -> Any:
            try:
                with self.study.store.writing() as db:
                    yield db
            except FullError:
                raise Refusal(507, "The disk is full", "Nothing was changed.") from None

        return guarded()
