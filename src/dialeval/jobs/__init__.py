"""Whole tasks: score a file, run a benchmark, verify golden scores, guard a release, show a demo."""
