"""Reports: findings in, pages out. One HTML file without script or network, Markdown, LaTeX."""

from dialeval.reports.latex import to_latex
from dialeval.reports.markdown import to_markdown
from dialeval.reports.page import to_html
from dialeval.reports.report import ENDINGS, write_report

__all__ = ["ENDINGS", "to_html", "to_latex", "to_markdown", "write_report"]
