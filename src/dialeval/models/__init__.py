"""Learned models: encoders, artefacts, indexes, the training loop."""
