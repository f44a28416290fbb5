"""Connectionist temporal classification: slots that emit a token or a blank, repeats collapsed."""

from pcfgnat.structures.ctc.distribution import CTC, CTCPosterior

__all__ = ["CTC", "CTCPosterior"]
