"""TLS between a socket's transport and a protocol, record by record.

The loop's own transport over TLS holds 256 KB of buffers for as long as it lives, and a cell keeps thousands of them at
rest. Here OpenSSL's state is what remains: bytes are handed on in the step of the loop in which they arrive.
"""

import asyncio
import contextlib
import ssl
from typing import Any, cast

RECORD = 16_384
"""Bytes of a record, at most (RFC 8446 5.1): what OpenSSL gives at once, and what its input buffer grows to."""


class Secured(asyncio.Transport, asyncio.Protocol):
    """The socket's protocol, and the transport of `inner`, which hears of the connection after the handshake."""

    def __init__(
        self,
        context: ssl.SSLContext,
        name: str,
        inner: asyncio.Protocol,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`name`: whom the certificate has to be for. Raises `ValueError` for one that no certificate can have."""
        super().__init__()
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._shaken: asyncio.Future[None] = loop.create_future()
        self._made = False
        """`inner` was told of the connection."""
        self._closing = False
        self._error: ssl.SSLError | None = None
        self._raw: asyncio.Transport | None = None

    async def handshake(self) -> None:
        """Wait until it is over. Raises `OSError` for what it ended with; what TLS refuses is an `ssl.SSLError`."""
        await self._shaken

    # the socket's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's is none by name
        self._shake()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        plain: list[bytes] = []
        try:
            ended = self._decrypt(data, plain)
        except ssl.SSLError as error:
            ended = False
            self._break(error)
        if plain:
            self._inner.data_received(plain[0] if len(plain) == 1 else b"".join(plain))
        if ended and not self._closing:
            self.eof_received()
            self.close()

    def eof_received(self) -> None:
        if self._made:
            self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if not self._shaken.done():
            self._shaken.set_exception(exc or ConnectionResetError("closed within the handshake"))
        if self._made:
            self._made = False
            self._inner.connection_lost(self._error or exc)

    def pause_writing(self) -> None:
        if self._made:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._made:
            self._inner.resume_writing()

    # the transport of `inner`

    def write(self, data: Any) -> None:
        if not self._closing:
            self._tls.write(data)
            self._flush()

    def close(self) -> None:
        """The other end is told so, and not waited for."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(ssl.SSLError):  # its answer is wanted, or the connection is broken already
            self._tls.unwrap()
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        self._closing = True
        self._shaken.cancel()
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def is_reading(self) -> bool:
        return self._socket.is_reading()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)

    @property
    def _socket(self) -> asyncio.Transport:
        assert self._raw is not None
        return self._raw

    # records

    def _decrypt(self, data: bytes, plain: list[bytes]) -> bool:
        """Add to `plain` what `data` completes; whether the other end has said that nothing more comes."""
        for start in range(0, len(data), RECORD):
            self._incoming.write(data[start : start + RECORD])
            if not self._made and not self._shake():
                continue
            while self._incoming.pending or self._tls.pending():
                try:
                    some = self._tls.read(RECORD)
                except ssl.SSLWantReadError:
                    break
                if not some:
                    return True
                plain.append(some)
        self._flush()
        return False

    def _shake(self) -> bool:
        """A step of the handshake; whether it is over."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._break(error)
            return False
        self._flush()
        if self._shaken.done():  # nobody waits for it any more
            return False
        self._made = True
        self._shaken.set_result(None)
        self._inner.connection_made(self)
        return True

    def _break(self, error: ssl.SSLError) -> None:
        """What came was not TLS, or none that is trusted: the other end is told why, and that is all."""
        self._flush()
        self._error = error
        if not self._shaken.done():
            self._shaken.set_exception(error)
        self._closing = True
        self._socket.close()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())
