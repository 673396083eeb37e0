"""People → scores: schemes, the project that holds answers, the pages of raters and coordinator."""

from dialeval.annotation.project import AnnotationProject, create, is_project
from dialeval.annotation.scheme import Scheme, parse_scheme, read_scheme, scheme_names

__all__ = [
    "AnnotationProject",
    "Scheme",
    "create",
    "is_project",
    "parse_scheme",
    "read_scheme",
    "scheme_names",
]
