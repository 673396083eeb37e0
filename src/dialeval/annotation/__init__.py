"""People → scores: schemes, the project that holds answers, the pages of raters and coordinator."""

from dialeval.annotation.project import AnnotationProject, create, is_project
from dialeval.annotation.scheme import SCHEMES, Scheme, parse_scheme, read_scheme

__all__ = ["SCHEMES", "AnnotationProject", "Scheme", "create", "is_project", "parse_scheme", "read_scheme"]
