"""Losses and dev figures against independent implementations."""

import numpy as np
import pytest
from sklearn import metrics as oracle

from dialeval.errors import UsageError
from dialeval.models.heads import Head, readable
from dialeval.training.figures import batch_loss, figure_named, resolve, totals

HEADS = (
    Head("quality", "regression"),
    Head("stop", "binary", weight=0.5),
    Head("act", "classes", ("a", "b", "c"), weight=2.0),
)
ROWS = 40
torch = pytest.importorskip("torch")


@pytest.fixture
def case():
    chance = np.random.default_rng(5)
    targets = {
        "quality": chance.normal(size=ROWS),
        "stop": chance.choice([0.0, 0.3, 1.0], size=ROWS),
        "act": chance.integers(0, 3, size=ROWS).astype(float),
    }
    for values in targets.values():
        values[chance.random(ROWS) < 0.3] = np.nan
    outputs = {
        "quality": chance.normal(size=ROWS),
        "stop": chance.normal(size=ROWS),
        "act": chance.normal(size=(ROWS, 3)),
    }
    weights = chance.choice([0.0, 0.5, 2.0], size=ROWS)
    return (
        {name: torch.tensor(value, requires_grad=True) for name, value in outputs.items()},
        targets,
        weights,
    )


def by_hand(outputs, targets, weights) -> float:
    """The same in plain numpy, example by example."""
    total = 0.0
    for head in HEADS:
        said, paid, counted = outputs[head.name].detach().numpy(), 0.0, 0.0
        for row in range(ROWS):
            wanted = targets[head.name][row]
            if np.isnan(wanted):
                continue
            if head.kind == "regression":
                error = (said[row] - wanted) ** 2
            elif head.kind == "binary":
                p = 1 / (1 + np.exp(-said[row]))
                error = -(wanted * np.log(p) + (1 - wanted) * np.log(1 - p))
            else:
                error = -np.log(np.exp(said[row][int(wanted)]) / np.exp(said[row]).sum())
            paid += weights[row] * error
            counted += weights[row]
        total += head.weight * paid / counted
    return total


def test_loss_is_what_it_says(case) -> None:
    outputs, targets, weights = case
    loss = batch_loss(outputs, targets, weights, HEADS, totals(targets, weights, np.arange(ROWS)))
    assert loss.item() == pytest.approx(by_hand(outputs, targets, weights), rel=1e-12)


def test_labels_that_are_missing_move_nothing(case) -> None:
    outputs, targets, weights = case
    batch_loss(outputs, targets, weights, HEADS, totals(targets, weights, np.arange(ROWS))).backward()
    for name, values in targets.items():
        gradient = outputs[name].grad.abs().reshape(ROWS, -1).sum(axis=1).numpy()
        assert (gradient[np.isnan(values) | (weights == 0)] == 0).all()
        assert (gradient[~np.isnan(values) & (weights > 0)] > 0).all()


def test_parts_of_a_step_add_up_to_it(case) -> None:
    outputs, targets, weights = case
    whole = totals(targets, weights, np.arange(ROWS))
    loss = batch_loss(outputs, targets, weights, HEADS, whole)
    sizes, summed = (1, 9, 25, 5), 0.0
    for rows in np.split(np.arange(ROWS), np.cumsum(sizes)[:-1]):
        part = {name: values[rows] for name, values in outputs.items()}
        wanted = {name: values[rows] for name, values in targets.items()}
        found = batch_loss(part, wanted, weights[rows], HEADS, whole)
        summed += 0.0 if found is None else found.item()
    assert summed == pytest.approx(loss.item(), rel=1e-12)


def test_a_batch_without_labels_has_no_loss(case) -> None:
    outputs, targets, weights = case
    nothing = {name: np.full(ROWS, np.nan) for name in targets}
    assert batch_loss(outputs, nothing, weights, HEADS, totals(nothing, weights, np.arange(ROWS))) is None


def test_figures_equal_their_oracles(case) -> None:
    outputs, targets, _ = case
    said = {head.name: readable(head, outputs[head.name].detach().numpy()) for head in HEADS}
    known = {name: ~np.isnan(values) for name, values in targets.items()}
    act, chosen = targets["act"][known["act"]], said["act"][known["act"]].argmax(axis=1)
    stop, likely = targets["stop"][known["stop"]] >= 0.5, said["stop"][known["stop"]] >= 0.5

    def value(spec: str) -> float | None:
        return figure_named(spec, HEADS)(said, targets)

    assert value("accuracy:act") == pytest.approx(oracle.accuracy_score(act, chosen))
    assert value("macro_f1:act") == pytest.approx(oracle.f1_score(act, chosen, average="macro"))
    both = oracle.f1_score(act, chosen, average="macro"), oracle.f1_score(stop, likely, average="macro")
    assert value("macro_f1") == pytest.approx(np.mean(both))
    quality = targets["quality"][known["quality"]], said["quality"][known["quality"]]
    assert value("pearson:quality") == pytest.approx(np.corrcoef(*quality)[0, 1])
    ranks = [np.argsort(np.argsort(column)) for column in quality]
    assert value("spearman:quality") == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert value("negative_loss") == pytest.approx(-by_hand(outputs, targets, np.ones(ROWS)))


def test_undefined_is_none() -> None:
    said, wanted = {"quality": np.zeros(5)}, {"quality": np.arange(5.0)}
    assert figure_named("spearman", HEADS[:1])(said, wanted) is None
    assert figure_named("negative_loss", HEADS[:1])(said, {"quality": np.full(5, np.nan)}) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bleu", "unknown dev figure 'bleu'"),
        ("pearson:mood", "no head 'mood'"),
        ("pearson:act", "no head of the kind"),
    ],
)
def test_figures_that_do_not_fit_are_refused(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(spec, HEADS)
