"""A template for packages that add to dialeval; copy it and keep what you need."""

from pathlib import Path

PATIENCE = Path(__file__).with_name("patience.toml")
