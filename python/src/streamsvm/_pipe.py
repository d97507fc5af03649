"""The program `streamsvm` as a child process that learns and predicts (docs/python.md)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

#: Requests are split so that their answers come at least this often, in bytes.
BATCH = 4 << 20


class ProgramError(RuntimeError):
    """The program could not be started, or has ended unexpectedly."""


class RowError(ValueError):
    """A row, or the whole of the input, cannot be used.

    Attributes:
        row: its number from 0 on in what was passed, or None.
        field: the field that is wrong, or empty.
    """

    def __init__(self, message: str, field: str = "", row: int | None = None) -> None:
        where = ("" if row is None else f"row {row}: ") + (f"{field}: " if field else "")
        super().__init__(where + message)
        self.message, self.field, self.row = message, field, row

    def __reduce__(self) -> Any:
        return RowError, (self.message, self.field, self.row)


def program() -> str:
    """Returns the path of the program: that of the environment variable
    STREAMSVM_BIN, or the one in this package, or the one on the PATH.

    Raises:
        ProgramError: there is none.
    """
    inside = Path(__file__).parent / "bin" / ("streamsvm.exe" if os.name == "nt" else "streamsvm")
    found = os.environ.get("STREAMSVM_BIN") or (str(inside) if inside.exists() else _on_path())
    if not found:
        raise ProgramError("this installation of streamsvm has no program: install a wheel for your platform, or set STREAMSVM_BIN to the path of one")
    return found


def _on_path() -> str | None:
    """The first program on the PATH that is not the command of this package, which would
    start itself."""
    for folder in os.get_exec_path():
        found = shutil.which("streamsvm", path=folder)
        if found is None or os.name == "nt" and Path(folder) == Path(sysconfig.get_path("scripts")):
            continue
        with open(found, "rb") as f:
            if b"streamsvm._pipe" not in f.read(4096):
                return found
    return None


def main() -> int:
    """The command `streamsvm`."""
    command = [program(), *sys.argv[1:]]
    if os.name == "nt":
        return subprocess.call(command)
    os.execv(command[0], command)


def run(*args: str) -> str:
    """Runs a command of the program and returns its standard output.

    Raises:
        ValueError: the program refuses the arguments or the data.
        ProgramError: it fails for another reason.
    """
    done = subprocess.run([program(), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise failure(done.returncode, done.stderr)
    return done.stdout


def failure(code: int, text: str) -> Exception:
    """Returns the exception for an exit code and what was on standard error."""
    lines = text.strip().removeprefix("streamsvm: ")
    if code in (64, 65, 78):
        return ValueError(lines or f"exit code {code}")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ProgramError(f"the program streamsvm has ended unexpectedly, with {how}" + (f": {lines}" if lines else ""))


def _stop(child: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    for stream in (child.stdin, child.stdout):
        try:
            if stream:
                stream.close()
        except OSError:
            pass  # it has ended
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    errors.close()


class Pipe:
    """A child process. It ends with the object."""

    def __init__(self, args: Sequence[str]) -> None:
        # Settings must come from args alone.
        env = {k: v for k, v in os.environ.items() if not k.startswith("STREAMSVM_") or k == "STREAMSVM_VEC"}
        self._errors = tempfile.TemporaryFile()
        # In a session of its own, an interrupt from the keyboard does not reach the child.
        try:
            self.child = subprocess.Popen(
                [program(), "replay", "--pipe", *args, "-"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=env,
                start_new_session=os.name != "nt",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )  # fmt: skip
        except OSError as e:
            self._errors.close()
            raise ProgramError(f"{program()}: {e}") from e
        self._lock, self._owner = threading.Lock(), os.getpid()
        self.close = weakref.finalize(self, _stop, self.child, self._errors)

    def call(self, kind: str, payload: bytes = b"") -> bytes:
        """Sends a request and returns the answer. Threads may share the process.

        Raises:
            RowError: the program refuses the request.
            ValueError: it refuses the settings.
            ProgramError: it has ended, or belongs to the process that this one was forked from.
        """
        if os.getpid() != self._owner:
            raise ProgramError("an estimator cannot be used after a fork: give it to other processes as a pickle")
        with self._lock:
            return self._call(kind, payload)

    def _call(self, kind: str, payload: bytes) -> bytes:
        stdin, stdout = self.child.stdin, self.child.stdout
        assert stdin and stdout
        if not self.close.alive:
            raise ProgramError("the program streamsvm has ended")
        try:
            stdin.write(struct.pack("<cI", kind.encode(), len(payload)))
            stdin.write(payload)
            stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._dead() from None
        try:
            head = stdout.read(5)
            if len(head) == 5:
                answer, size = struct.unpack("<cI", head)
                data = stdout.read(size)
                if len(data) == size:
                    if answer == b"e":
                        e = json.loads(data)
                        raise RowError(e["message"], e.get("field", ""), e.get("row"))
                    return data
        except KeyboardInterrupt:
            self.child.kill()  # the answer that is under way would be taken for another one
            raise
        raise self._dead()

    def _dead(self) -> Exception:
        code = self.child.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        self.close()
        return failure(code, text[-4000:])
