"""Studies: scores in, findings out. They have never heard of a metric or a rater, only of sources."""

from dialeval.studies.combination import Combination
from dialeval.studies.comparison import Comparison, Verdict, check, compare
from dialeval.studies.meta_evaluation import Settings, Study, study
from dialeval.studies.units import Units, align

__all__ = [
    "Combination",
    "Comparison",
    "Settings",
    "Study",
    "Units",
    "Verdict",
    "align",
    "check",
    "compare",
    "study",
]
