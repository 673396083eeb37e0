"""Studies: scores in, findings out. They have never heard of a metric or a rater, only of sources."""

from dialeval.studies.combination import Combination
from dialeval.studies.comparison import Comparison
from dialeval.studies.findings import Study, StudySettings
from dialeval.studies.inspection import Inspection, inspect
from dialeval.studies.meta_evaluation import study
from dialeval.studies.units import Units, align
from dialeval.studies.versions import check, compare

__all__ = [
    "Combination",
    "Comparison",
    "Inspection",
    "Study",
    "StudySettings",
    "Units",
    "align",
    "check",
    "compare",
    "inspect",
    "study",
]
