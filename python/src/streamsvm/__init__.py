"""Predict with streamsvm's models.

`load` reads one from a file; `Follower` follows a model topic and swaps versions
while the trainer runs.
"""

from ._events import EventError
from ._fields import FormatError
from ._follower import Follower, NoModel
from ._model import Inputs, Model, load
from ._topic import Update

__all__ = ["EventError", "Follower", "FormatError", "Inputs", "Model", "NoModel", "Update", "load"]
