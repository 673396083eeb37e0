"""Ratings as they are published: numbers, numbers as text, words such as `N/A`, or nothing at all."""

from collections.abc import Iterator, Mapping, Sequence

from dialeval.scores import Score

Cell = int | float | str | None


def rating(cell: Cell) -> tuple[float | None, str | None]:
    """Return value and note of a published rating; words become the note of an unscored row.

    >>> rating(4), rating("3"), rating("N/A (no errors)"), rating(None)
    ((4.0, None), (3.0, None), (None, 'N/A (no errors)'), (None, 'no rating'))
    """
    if cell is None or cell == "":
        return None, "no rating"
    try:
        return float(cell), None
    except ValueError:
        return None, str(cell)


def by_position(
    id: str,  # the word of the file format
    turn: int | None,
    system: str | None,
    ratings: Mapping[str, Sequence[Cell]],
) -> Iterator[Score]:
    """Yield a row per dimension and rater, where a rater is known by the place in a list only.

    `human:2` is then whoever comes second for this item, not one person throughout the set.

    >>> [(row.source, row.value) for row in by_position("d1", 3, None, {"overall": [4, "N/A"]})]
    [('human:1', 4.0), ('human:2', None)]
    """
    for dimension, cells in ratings.items():
        for place, cell in enumerate(cells, 1):
            yield Score(id, turn, system, f"human:{place}", dimension, *rating(cell))
