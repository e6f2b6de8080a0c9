"""penstock keeps SQL views fresh by doing only the work that a change causes."""

from penstock.base.errors import PenstockError
from penstock.engine.flow import Flow, TickSummary
from penstock.engine.watch import Change, Watch

__version__ = "0.1.0"
__all__ = ["Change", "Flow", "PenstockError", "TickSummary", "Watch", "__version__"]
