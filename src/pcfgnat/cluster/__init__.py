"""Translation of whole corpora by many machines, on Ray Data."""

from pcfgnat.cluster.job import ClusterJob, translate_shards
from pcfgnat.cluster.shards import Shard, ShardedFile

__all__ = ["ClusterJob", "Shard", "ShardedFile", "translate_shards"]
