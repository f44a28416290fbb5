"""Translation of whole corpora by many machines, on Ray Data."""

from pcfgnat.cluster.job import ClusterJob, translate_shards

__all__ = ["ClusterJob", "translate_shards"]
