"""A connection that counts what it is sent: an answer may be endless without a byte of body.

Interim responses (1xx) and chunk extensions come before or between the bytes that a body cap sees. One host
that sends them at the speed of the wire takes a whole core until the request's deadline.
"""

from typing import Any

from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import EMPTY_PAYLOAD

HEADS = 16
"""Bytes before the final head is complete, in header caps: as many full heads, interim ones included."""
OVERHEAD = 8
"""Bytes of a body on the wire per byte of its cap; a chunk of one byte takes six."""


class Metered(ResponseHandler):
    """aiohttp's protocol of one connection, cut off once an answer has used up its allowance (bytes)."""

    def __init__(self, head: int, body: int, **options: Any) -> None:
        super().__init__(**options)
        self._allowances = head, head + body
        self._received = 0
        self._in_body = False

    def set_response_params(self, **params: Any) -> None:
        """A request is about to be written."""
        self._received, self._in_body, self._payload = 0, False, None
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._received += len(data)
        self._in_body = self._in_body or self._payload not in (None, EMPTY_PAYLOAD)
        if self._received > self._allowances[self._in_body] and self.transport is not None:
            error = ClientPayloadError(f"{self._received} bytes and no end: more than any answer needs")
            if not self._in_body:
                self.set_exception(error)
            elif self._payload is not None:
                self._payload.set_exception(error)
            self.transport.abort()
