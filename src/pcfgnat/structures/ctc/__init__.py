"""Connectionist temporal classification: slots that emit a token or a blank, repeats collapsed."""
