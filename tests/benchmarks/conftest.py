"""Small checkpoints and prepared text, as the tests of the commands have them."""

from tests.cli.conftest import world

__all__ = ["world"]
