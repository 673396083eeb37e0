"""Score more dialogues than one sitting: planned into shards, worked off by any number of workers, resumed.

`batch` is the whole of it; a `plan` is made of the inputs and kept in a `folder`. `shard_scores` scores one
shard, the same wherever it runs; `workers` are given shards, here or on Ray.
"""
