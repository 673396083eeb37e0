"""Reports: findings in, pages out. One HTML file without script or network, Markdown, LaTeX.

A report draws what a study found; it reads no scores and computes no finding.
"""

from dialeval.reports.comparison_page import write_comparison
from dialeval.reports.documents import ENDINGS, to_latex, to_markdown, write_report
from dialeval.reports.explanations import explain
from dialeval.reports.page import to_html

__all__ = ["ENDINGS", "explain", "to_html", "to_latex", "to_markdown", "write_comparison", "write_report"]
