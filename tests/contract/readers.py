"""Every reader of files that somebody else may have made: importing the four files fills the list."""

import dialogue_readers
import job_readers
import model_readers
import score_readers
from reader import READERS, Reader

__all__ = ["READERS", "Reader", "dialogue_readers", "job_readers", "model_readers", "score_readers"]
