"""A way to PostgreSQL that counts what passes: statements, transactions, and round trips.

It stands between a client and the server as a socket, and reads the client's part of the protocol.
A round trip begins where the client sends something after the server has.
"""

from __future__ import annotations

import re
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

_NAME = re.compile(
    r"(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|BEGIN|COMMIT|ROLLBACK|SET)\b"
    r"(?:.*?\b((?:om_|checkpoint)\w*))?",
    re.DOTALL,
)
_SOCKET = ".s.PGSQL.5432"


@dataclass
class Traffic:
    """What went to the server."""

    statements: list[str] = field(default_factory=list)
    """Named by what they do, in order."""
    trips: int = 0
    connections: int = 0
    """How many were opened."""
    sent: int = 0
    """Bytes to the server."""

    @property
    def transactions(self) -> int:
        """How many were ended; a statement outside of one is not counted."""
        return self.statements.count("COMMIT") + self.statements.count("ROLLBACK")

    @property
    def names(self) -> Counter[str]:
        """How often each statement was run, those that only bracket others left out."""
        return Counter(name for name in self.statements if name.split()[0] not in _BRACKETS)


_BRACKETS = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "SET"})


def name_statement(sql: str) -> str:
    """Name a statement by its verb and the first table of ours in it."""
    found = _NAME.match(sql.strip())
    return " ".join(filter(None, found.groups())) if found else " ".join(sql.split())[:40]


@dataclass
class Tap:
    """The socket; a context manager of `tapped` makes it."""

    url: str
    """How to reach the server through it."""
    seconds: float = 0.0
    """How long each round trip takes longer, as over a network."""
    seen: Traffic = field(default_factory=Traffic)

    def reset(self) -> None:
        """Count anew."""
        self.seen = Traffic()


class _Connection:
    """One client's connection: what it says is read, and all is passed on."""

    def __init__(self, tap: Tap, client: socket.socket, server: socket.socket) -> None:
        self._tap, self._client, self._server = tap, client, server
        self._buffer, self._has_begun = b"", False
        self._parsed: dict[bytes, str] = {}
        self._bound: dict[bytes, str] = {}
        self._is_answered = True
        tap.seen.connections += 1
        self._sending = threading.Thread(target=self._send, daemon=True)
        self._sending.start()
        threading.Thread(target=self._answer, daemon=True).start()

    def _send(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(1 << 16):
                self._read(data)
                self._server.sendall(data)
        self._end()

    def _answer(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(1 << 16):
                self._is_answered = True
                self._client.sendall(data)
        self._end()
        self._sending.join()
        self._client.close()
        self._server.close()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _read(self, data: bytes) -> None:
        seen = self._tap.seen
        seen.sent += len(data)
        if self._is_answered:
            self._is_answered = False
            seen.trips += 1
            if self._tap.seconds:
                time.sleep(self._tap.seconds)
        self._buffer += data
        while True:
            head = 1 if self._has_begun else 0
            if len(self._buffer) < head + 4:
                return
            (size,) = struct.unpack_from("!I", self._buffer, head)
            if len(self._buffer) < head + size:
                return
            kind, body = self._buffer[:head], self._buffer[head + 4 : head + size]
            self._buffer = self._buffer[head + size :]
            if self._has_begun:
                self._note(kind, body)
            else:
                self._has_begun = struct.unpack_from("!I", body)[0] == 3 << 16

    def _note(self, kind: bytes, body: bytes) -> None:
        seen = self._tap.seen
        if kind == b"Q":
            said = body[:-1].decode()
            seen.statements += [name_statement(each) for each in said.split(";") if each.strip()]
        elif kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            self._parsed[name] = name_statement(sql.decode())
        elif kind == b"B":
            portal, name, _ = body.split(b"\0", 2)
            self._bound[portal] = self._parsed.get(name, "?")
        elif kind == b"E":
            seen.statements.append(self._bound.get(body.split(b"\0", 1)[0], "?"))


@contextmanager
def tapped(url: str, seconds: float = 0.0) -> Iterator[Tap]:
    """Stand between clients and the server of a libpq URL.

    Args:
        url: With the folder of the server's socket as `host`.
        seconds: How long each round trip takes longer.
    """
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    own = tempfile.mkdtemp(prefix="tap-")
    tap = Tap(parts._replace(query=f"host={quote(own, safe='')}").geturl(), seconds)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(own) / _SOCKET))
        listener.listen(100)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(str(Path(folder) / _SOCKET))
                    _Connection(tap, client, server)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield tap
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            shutil.rmtree(own, ignore_errors=True)
