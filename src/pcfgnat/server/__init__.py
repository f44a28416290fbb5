"""Translation over HTTP with a page to look at the trees; needs the extra `serve`."""

from pcfgnat.server.access import Access
from pcfgnat.server.app import create_app
from pcfgnat.server.limits import Limits
from pcfgnat.server.models import ServedModel

__all__ = ["Access", "Limits", "ServedModel", "create_app"]
