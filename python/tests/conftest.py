"""What tests need from outside: `go test ./python` writes it and says where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _given(name: str, what: str) -> str:
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"{name} is not set: go test ./python {what}")
    return value


@pytest.fixture(scope="session")
def golden() -> Path:
    """The directory of models with their answers."""
    return Path(_given("STREAMSVM_GOLDEN", "writes models and answers to compare with"))


@pytest.fixture(scope="session")
def brokers() -> str:
    return _given("STREAMSVM_BROKERS", "starts a broker")


@pytest.fixture(scope="session")
def program() -> str:
    """The path of streamsvm."""
    return _given("STREAMSVM_BIN", "builds streamsvm")
