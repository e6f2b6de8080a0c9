"""penstock keeps SQL views fresh by doing only the work that a change causes."""

from penstock.base.errors import *  # noqa: F403
from penstock.base.errors import __all__ as _errors
from penstock.base.version import VERSION
from penstock.engine.flow import Flow
from penstock.engine.flow_upkeep import StateEntry
from penstock.engine.session import Session
from penstock.engine.summary import TickSummary
from penstock.engine.verify import Check
from penstock.engine.watch import Change, Watch
from penstock.run.spark.session import Spark

__version__ = VERSION
__all__ = [
    "Change",
    "Check",
    "Flow",
    "Session",
    "Spark",
    "StateEntry",
    "TickSummary",
    "Watch",
    "__version__",
    *_errors,
]
