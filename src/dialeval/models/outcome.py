"""A head that says how likely an agent was to reach its user's goal, from a few features of the dialogue."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.heads import Head, VectorHead
from dialeval.models.untrusted import read_setting

DEFAULT = "dialeval-outcome"
KIND = "outcome.v1"
HEAD = Head("success", "binary")


class OutcomeHead(Model):
    """A calibrated logistic head over named features."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    default: ClassVar[str] = DEFAULT

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        place = artefact.folder / "config.json"
        self._head = VectorHead(artefact)
        self.features: list[str] = read_setting(artefact.config, "features", list[str], place)
        if self._head.heads != (HEAD,) or len(self.features) != self._head.inputs:
            raise DataError("expected one head `success` and a name for each feature", file=place)

    def chances(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the probability of success for each row of features."""
        return self._head.answers(rows)[HEAD.name]
