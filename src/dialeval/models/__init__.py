"""What was learned: encoders, artefacts, indexes, the training loop."""
