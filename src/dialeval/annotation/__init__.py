"""People → scores: schemes, the store of answers, the app that raters and the coordinator use."""

from dialeval.annotation.scheme import SCHEMES, Scheme, parse_scheme, read_scheme
from dialeval.annotation.study import Study, create, is_study

__all__ = ["SCHEMES", "Scheme", "Study", "create", "is_study", "parse_scheme", "read_scheme"]
