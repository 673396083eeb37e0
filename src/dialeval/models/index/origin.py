"""Where vectors came from: two encoders' vectors cannot be compared, so an index knows its own."""

import re
from pathlib import Path
from typing import Protocol

from dialeval.errors import DataError, UsageError
from dialeval.models.index.layout import Origin


class Named(Protocol):
    """Whatever made the vectors: an encoder, or anything that has a name and an identity of 64 hex digits."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def sha(self) -> str:
        """What tells it from any other."""


def origin_of(encoder: Named | None) -> Origin | None:
    """Return what `config.json` keeps of an encoder."""
    if encoder is None:
        return None
    if not re.fullmatch("[0-9a-f]{64}", encoder.sha):
        raise UsageError(f"the sha of an encoder has 64 hex digits, not {encoder.sha!r:.80}")
    return Origin(encoder.name, encoder.sha)


def check_encoder(folder: Path, origin: Origin | None, encoder: Named) -> None:
    """Refuse an encoder that is not the one an index was built with."""
    if origin is None or origin.sha != encoder.sha:
        built = "without an encoder" if origin is None else f"with {origin.name!a} ({origin.sha[:12]})"
        raise DataError(
            f"was built {built}, not with {encoder.name!a} ({encoder.sha[:12]}), whose vectors are others",
            file=folder,
            fix="use the encoder it was built with, or build it afresh",
        )
