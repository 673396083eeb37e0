"""What is in a report, in the order of Markdown and LaTeX."""

from dialeval.reports import class_tables as of_classes
from dialeval.reports import correlation_tables as of_sources
from dialeval.reports import matrix_tables as between
from dialeval.reports import other_tables as others
from dialeval.reports.line_tables import line_table
from dialeval.reports.table import Table
from dialeval.reports.triage import Triage
from dialeval.reports.triage_tables import triage_tables
from dialeval.studies import Study

ILLUSTRATIVE = (
    "The ratings in this report are illustrative: made up to show what the tools do. They measure nothing."
)


def all_tables(study: Study, triage: Triage | None = None) -> list[Table]:
    """Make every table that the study, and the triage of its turns, has something for."""
    made = [
        of_sources.correlation_table(study),
        of_sources.difference_table(study),
        of_sources.subset_table(study),
        of_classes.label_table(study),
        of_classes.auc_table(study),
        of_classes.threshold_table(study),
        of_classes.class_table(study),
        between.matrix_table(study),
        between.pair_table(study),
        of_sources.calibration_table(study),
        line_table(study),
        others.means_table(study),
        others.comparison_table(study),
        others.agreement_table(study),
        others.worst_table(study),
        *triage_tables(triage),
        others.signature_table(study.signatures),
        others.schema_table(study),
        others.settings_table(study),
    ]
    return [table for table in made if table is not None and table.rows]
