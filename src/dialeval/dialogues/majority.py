"""Many votes, one answer."""

from collections import Counter
from collections.abc import Sequence


def majority_of(rounds: Sequence[Sequence[str | None]]) -> str | None:
    """Return the answer with more votes than any other, and at least two, after the first round that has one.

    >>> majority_of([["yes", "no", None], ["no"]])
    'no'
    """
    counts: Counter[str] = Counter()
    for votes in rounds:
        counts.update(vote for vote in votes if vote)
        first, second = [*(count for _, count in counts.most_common(2)), 0, 0][:2]
        if first >= 2 and first > second:
            return counts.most_common(1)[0][0]
    return None
