"""The tables of a report by name, in the order of the Markdown and LaTeX documents."""

from collections.abc import Mapping

from dialeval.reports import record_tables, source_tables, summary, system_tables
from dialeval.reports.table import Table
from dialeval.reports.trust_tables import trust_tables
from dialeval.studies import Inspection, Study
from dialeval.studies.triage import Triage
from dialeval.studies.trust_findings import Trust

_PAGE_ONLY = ("systems", "verdicts", "gold_comparisons", "other_comparisons", "coverage", "notes")


def study_tables(study: Study) -> dict[str, Table]:
    """Return all tables of a study that are not empty."""
    return _not_empty(
        {
            "systems": summary.system_table(study),
            "verdicts": summary.verdict_table(study),
            "languages": record_tables.language_table(study),
            "correlations": source_tables.correlation_table(study),
            "differences": source_tables.difference_table(study),
            "subsets": source_tables.subset_table(study),
            "labels": source_tables.label_table(study),
            "auc": source_tables.auc_table(study),
            "thresholds": source_tables.threshold_table(study),
            "classes": source_tables.class_table(study),
            "matrix": source_tables.matrix_table(study),
            "pairs": source_tables.pair_table(study),
            "calibration": source_tables.calibration_table(study),
            "lines": source_tables.line_table(study),
            "means": system_tables.means_table(study),
            "comparisons": system_tables.comparison_table(study),
            "gold_comparisons": system_tables.comparison_table(study, gold=True),
            "other_comparisons": system_tables.comparison_table(study, gold=False),
            "agreement": system_tables.agreement_table(study),
            "worst": record_tables.worst_table(study),
            "signatures": record_tables.signature_table(study),
            "schema": record_tables.schema_table(study),
            "settings": record_tables.settings_table(study),
            "coverage": record_tables.coverage_table(study),
            "notes": record_tables.note_table(study),
        }
    )


def triage_tables(triage: Triage | None, study: Study) -> dict[str, Table]:
    """Return the tables of triage that are not empty; systems in the order of the study."""
    if triage is None:
        return {}
    return _not_empty(
        {
            "faults": record_tables.fault_table(triage, summary.best_first(study)),
            "failures": record_tables.failure_table(triage),
            "worst_turns": record_tables.worst_turn_table(triage),
            "over_turns": record_tables.index_table(triage),
        }
    )


def all_tables(study: Study, inspection: Inspection | None = None, trust: Trust | None = None) -> list[Table]:
    """Return the tables of a document without figures: the findings, then how they were made."""
    tables = study_tables(study)
    record = [tables.pop(name) for name in ("signatures", "schema", "settings") if name in tables]
    main = [table for name, table in tables.items() if name not in _PAGE_ONLY]
    triage = triage_tables(inspection.triage if inspection else None, study)
    return [*main, *(trust_tables(trust) if trust else {}).values(), *triage.values(), *record]


def _not_empty(tables: Mapping[str, Table | None]) -> dict[str, Table]:
    return {name: table for name, table in tables.items() if table is not None}
