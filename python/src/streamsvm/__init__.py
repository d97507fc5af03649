"""Learn from streams, and predict, with streamsvm.

`Classifier` and `Regressor` are estimators of scikit-learn. `Follower` follows a model
topic and switches to new versions while the trainer runs; `load` reads a model from a
file.
"""

from typing import TYPE_CHECKING, Any

from ._events import EventError
from ._fields import FormatError
from ._follower import Follower, NoModel
from ._model import Inputs, Model, load
from ._pipe import ProgramError, RowError, program
from ._topic import Update

if TYPE_CHECKING:
    from ._estimators import Classifier, Regressor

__all__ = [
    "Classifier", "EventError", "Follower", "FormatError", "Inputs", "Model", "NoModel", "ProgramError", "Regressor",
    "RowError", "Update", "load", "program",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in ("Classifier", "Regressor"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import _estimators
    except ImportError as e:
        raise ImportError(f"{name} needs scikit-learn: pip install 'streamsvm[sklearn]' ({e})") from e
    return getattr(_estimators, name)
