"""What the figures of `trust` say, in plain words: one sentence, and what it stands on."""

from collections.abc import Iterator

from dialeval.statistics import Estimate
from dialeval.studies.trust_findings import MeanDifference, MeanEstimate, SourceTrust

WORTHWHILE = 0.1  # of the labels: from so many more on, a judge is worth its trouble
SIGNIFICANT = 0.05
FEW = 30  # labels, of which what a judge is worth is mostly chance


def words(found: SourceTrust, dimension: str) -> dict[str, str | tuple[str, ...]]:
    """Say what was found of a source; what cannot be used has said so already."""
    if not found.usable:
        return {}
    return {"verdict": _verdict(found), "reasons": tuple(_reasons(found, dimension))}


def _verdict(found: SourceTrust) -> str:
    every = found.estimates[0]
    alone = " Its own mean misleads." if _misleads(every) else ""
    if found.replacement is not None and found.replacement.passed:
        return f"{found.label} may stand in for a rater.{alone}"
    if every.n_labels == every.n_units:
        return f"{found.label} is not needed here: every unit it scored is labelled.{alone}"
    if every.worth is None:
        return f"{found.label}: no estimate over all systems ({every.powered.reason}).{alone}"
    if every.n_labels < FEW:
        return f"{found.label}: {every.n_labels} labels are too few to tell whether it helps.{alone}"
    if every.worth >= WORTHWHILE * every.n_labels:
        return f"{found.label} helps, beside labels and not instead of them.{alone}"
    return f"{found.label} adds nothing to the labels: use these alone.{alone}"


def _misleads(one: MeanEstimate) -> bool:
    """Whether the interval of the mean score and that of the mean rating have nothing in common."""
    naive, true = one.naive, one.powered
    if None in (naive.low, naive.high, true.low, true.high):
        return False
    return bool(naive.low > true.high or naive.high < true.low)  # type: ignore[operator]


def _reasons(found: SourceTrust, dimension: str) -> Iterator[str]:
    every = found.estimates[0]
    if every.powered.value is not None:
        yield f"mean {dimension} of all {every.n_units:,}: {figure(every.powered)}"
        yield f"by the {every.n_labels:,} labels alone: {figure(every.labels)}"
    if _misleads(every):
        off = (every.naive.value or 0.0) - (every.powered.value or 0.0)
        yield f"its own mean is {figure(every.naive)}: off by {off:+.2f}"
    if every.worth is not None and every.n_labels < every.n_units:
        yield _worth(every)
    elif every.n_labels == every.n_units and found.correlation.value is not None:
        most = 100 / (1 - min(found.correlation.value**2, 0.99))
        yield f"where few are labelled, 100 labels with it would tell as much as {most:.0f} without, at most"
    yield from _samples(found)
    yield from _about_rater(found)
    yield from _about_systems(found)
    for bias in found.biases:
        if bias.p_holm is not None and bias.p_holm < SIGNIFICANT and bias.estimate.value is not None:
            more, way = ("more", "rises") if bias.estimate.value > 0 else ("less", "falls")
            if bias.kind == "correlation":
                yield f"at equal ratings it {way} with {bias.name}: r = {figure(bias.estimate)}"
            else:
                yield f"{bias.name} gets {more} than people give, against the rest: {figure(bias.estimate)}"
    is_share = found.agreement is not None and len(found.agreement.people) == 2
    if found.half_width is not None and not is_share:
        yield f"of one unit it knows the rating to ± {found.half_width:.2f}"


def _worth(every: MeanEstimate) -> str:
    n, more = every.n_labels, round(every.worth or 0.0)
    if more < 1:
        return f"worth no label: {n} labels tell as much without it"
    return f"worth {more:,} labels: {n:,} labels with it tell as much as {n + more:,} without"


def _samples(found: SourceTrust) -> Iterator[str]:
    """Whether labels are a sample of what was scored."""
    if found.excluded:
        yield f"{found.outside:,} units score beyond every labelled one: no estimate speaks of them"
    elif found.outside:
        yield f"{found.outside:,} units score beyond the labelled ones, no more than chance leaves there"
    if found.typical is not None and found.typical < SIGNIFICANT / 5:
        yield (
            f"labelled units score otherwise than the rest (p = {found.typical:.2g}): if they were not drawn "
            "at random, no figure here holds"
        )
    if found.n_unscored:
        yield f"{found.n_unscored:,} units are unscored: nothing is said of them"


def _about_rater(found: SourceTrust) -> Iterator[str]:
    test = found.replacement
    if test is None:
        yield "one rater only: whether it may replace one cannot be tested"
    elif test.winning_rate is None:
        yield f"whether it may replace a rater cannot be tested: {test.reason}"
    else:
        won, constant = (
            round((one or 0.0) * test.raters) for one in (test.winning_rate, test.constant_winning_rate)
        )
        figures = (
            f"it wins against {won} of {test.raters} and is as good as one in {test.advantage:.0%}; "
            f"always the same answer: {constant} and {test.constant_advantage:.0%}"
        )
        if test.winning_rate >= 0.5 and not test.passed:
            yield f"raters differ so much that any answer may replace one, which says nothing: {figures}"
        else:
            yield f"it {'may' if test.passed else 'may not'} replace a rater: {figures}"


def _about_systems(found: SourceTrust) -> Iterator[str]:
    """The differences that are there, and how many are not."""
    sure = [one for one in found.differences if one.p_holm is not None and one.p_holm < SIGNIFICANT]
    for one in sure[:3]:
        yield _better(one)
    if found.differences and len(sure) < len(found.differences):
        rest = len(found.differences) - len(sure)
        yield f"{rest} of {len(found.differences)} differences between systems are not settled"


def _better(one: MeanDifference) -> str:
    names, gap = (one.first, one.second), one.powered
    if (gap.value or 0.0) < 0:
        names, gap = names[::-1], gap.turned()
    return f"{names[0]} is better than {names[1]} by {figure(gap)}, p = {one.p_holm:.2g} (Holm)"


def figure(one: Estimate) -> str:
    """Write an estimate for a sentence.

    >>> figure(Estimate(0.756, 20, 0.7, 0.8))
    '0.76 [0.70, 0.80]'
    """
    if one.value is None:
        return f"unknown ({one.reason})"
    return f"{one.value:.2f}" + ("" if one.low is None else f" [{one.low:.2f}, {one.high:.2f}]")
