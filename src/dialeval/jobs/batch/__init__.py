"""Score more dialogues than one sitting: planned into shards, worked off by any number of workers, resumed.

`batch` is the whole of it; a plan is made by `planning` of `inputs`, read by `shards`, kept in a `folder`.
`shard_scores` scores one shard, the same wherever it runs; `crews` hand shards to workers, here or on Ray.
"""
