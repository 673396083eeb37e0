"""Scores over HTTP: requests are gathered into passes, scored by one thread, answered and counted.

A request is acknowledged by its answer and by nothing before: whoever has no answer, because the service was
killed or the line broke, asks again and gets the same numbers. Nothing is kept between requests but vectors
of texts, which are found by content.
"""
