"""Linear heads by ridge regression, in closed form, with numpy alone.

With noisy labels, such as signals from a user's next turn, a linear head with a strong penalty does better
than a network with hidden layers.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.heads import Head
from dialeval.models.tensors import Array, Storage
from dialeval.training.checkpoint import DevResult, Trained
from dialeval.training.examples import Floats, VectorExample, data_hash, stack, target_arrays
from dialeval.training.export import ArtefactParts, vector_parts
from dialeval.training.figures import Figure, figure_name, resolve
from dialeval.training.settings import TrainingSettings

_ROWS = 4096  # examples multiplied at a time
Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RidgeHeads:
    """Fitted linear heads over standardised features; weights and intercepts by the name of the head."""

    heads: tuple[Head, ...]
    mean: Vector
    scale: Vector
    weights: Mapping[str, Vector]
    intercepts: Mapping[str, float]

    def predict(self, examples: Sequence[VectorExample]) -> dict[str, Floats]:
        """Return the prediction of each head for each example."""
        rows = (stack(examples, len(self.mean)) - self.mean) / self.scale
        return {
            head.name: (rows @ self.weights[head.name] + np.float32(self.intercepts[head.name])).astype(float)
            for head in self.heads
        }

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by the names of those of `VectorNetwork`."""
        arrays: dict[str, Array] = {"mean": self.mean, "scale": self.scale}
        for number, head in enumerate(self.heads):
            arrays[f"heads.{number}.weight"] = self.weights[head.name][None]
            arrays[f"heads.{number}.bias"] = np.array([self.intercepts[head.name]], np.float32)
        return arrays

    def parts(self, _: Storage) -> ArtefactParts:
        """Return the parts of the artefact."""
        return vector_parts(self.arrays(), self.heads)


def fit_ridge(
    examples: Sequence[VectorExample], heads: Sequence[Head], penalty: float, emphasis: Sequence[float] = ()
) -> RidgeHeads:
    """Fit a linear head to each target by ridge regression.

    The penalty applies to standardised features and to the mean squared error, so that it means the same for
    a thousand examples and for a million.

    Args:
        examples: Features, targets and weights.
        heads: The targets; each must be a number.
        penalty: The weight of the squared norm of the coefficients.
        emphasis: A factor for each standardised feature; features with a large one are penalised less.

    >>> rows = [VectorExample(np.array([float(x)]), {"quality": 2.0 * x}) for x in range(5)]
    >>> fitted = fit_ridge(rows, [Head("quality", "regression")], penalty=1.0)
    >>> fitted.weights["quality"].round(3), fitted.intercepts
    (array([1.414], dtype=float32), {'quality': 4.0})
    """
    if any(head.kind != "regression" for head in heads):
        raise UsageError("ridge regression is for regression heads only")
    features = stack(examples)
    mean, scale = standardisation(features)
    if emphasis:
        scale = np.divide(scale, np.asarray(emphasis, np.float32), dtype=np.float32)
    example_weights = np.array([example.weight for example in examples], np.float64)
    weights, intercepts = dict[str, Vector](), dict[str, float]()
    for names, labelled, targets in _by_rows(target_arrays(examples, heads), example_weights):
        share = example_weights[labelled] / example_weights[labelled].sum()
        means = share @ targets
        gram, moments = np.zeros((len(mean), len(mean))), np.zeros((len(mean), len(names)))
        for start in range(0, len(labelled), _ROWS):
            block = slice(start, start + _ROWS)
            rows = (features[labelled[block]] - mean.astype(np.float64)) / scale.astype(np.float64)
            gram += (rows * share[block, None]).T @ rows
            moments += rows.T @ (share[block, None] * (targets[block] - means))
        solved = np.linalg.solve(gram + penalty * np.eye(len(mean)), moments)
        for number, name in enumerate(names):
            weights[name], intercepts[name] = solved[:, number].astype(np.float32), float(means[number])
    return RidgeHeads(tuple(heads), mean, scale, weights, intercepts)


def _by_rows(
    targets: Mapping[str, Floats], example_weights: npt.NDArray[np.float64]
) -> Iterator[tuple[list[str], npt.NDArray[np.intp], npt.NDArray[np.float64]]]:
    """Yield names, rows and targets of heads that are labelled in the same examples."""
    groups: dict[bytes, list[str]] = {}
    for name, values in targets.items():
        rows = ~np.isnan(values) & (example_weights > 0)
        if not rows.any():
            raise DataError(f"no training example has a label for the head {name!r}")
        groups.setdefault(rows.tobytes(), []).append(name)
    for mask, names in groups.items():
        labelled = np.flatnonzero(np.frombuffer(mask, bool))
        yield names, labelled, np.stack([targets[name][labelled] for name in names], axis=1)


def standardisation(features: npt.NDArray[np.float32]) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of each feature; 1 for a feature that never varies."""
    scale = features.std(axis=0, dtype=np.float64)
    scale[scale < 1e-6] = 1.0  # a near-constant feature must not be scaled up
    return features.mean(axis=0, dtype=np.float64).astype(np.float32), scale.astype(np.float32)


def evaluate_ridge(
    fitted: RidgeHeads,
    train: Sequence[VectorExample],
    dev: Sequence[VectorExample],
    settings: TrainingSettings,
    figure: str | Figure,
) -> Trained:
    """Measure the dev figure of fitted heads and return the record of the run, which has no steps."""
    began, measure = time.monotonic(), resolve(figure, fitted.heads)
    value = measure(fitted.predict(dev), target_arrays(dev, fitted.heads)) if measure and dev else None
    value = None if value is None or not np.isfinite(value) else float(value)
    return Trained(
        settings=settings,
        best_figure=value,
        figure=figure_name(measure if dev else None),
        history=(DevResult(0, 0, 0.0, value),),
        train_rows=len(train),
        dev_rows=len(dev),
        train_hash=data_hash(train),
        dev_hash=data_hash(dev),
        seconds=time.monotonic() - began,
    )
