"""`image`: a picture in a column of the dataset, by path, URL or bytes."""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verdict_cli.errors import ReplyError, RowError

_SIGNATURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_URLS = ("http://", "https://", "data:image/")


@dataclass(frozen=True, slots=True)
class ImageType:
    """`image`. The value is a URL (`https:`, `data:`) or the path of a file; bytes become a `data:` URL.

    Without ``files`` a path is rejected: the output of a model or an expression must not name a file of this machine.
    """

    files: bool = field(default=True, compare=False)

    def read(self, value: Any) -> str:
        """The URL or path; ReplyError for another value and for a missing file."""
        if isinstance(value, bytes):
            return _data_url(value, _kind(value))
        if not isinstance(value, str) or not value:
            raise ReplyError(f"{value!r:.80} is not an image: a path, a URL or bytes are expected")
        if not is_image_url(value):
            if not self.files:
                raise ReplyError(
                    f"{value!r:.80} is not an http:, https: or data: URL, and the output of a unit cannot name a file"
                )
            if not _is_file(value):
                raise ReplyError(f"there is no image file {value!r:.200}")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def type_name(self) -> str:
        return "image"

    def numeric(self) -> bool:
        return False


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_image_url(value: str) -> bool:
    """Whether an image's value is an address; anything else is the path of a file."""
    return value.startswith(_URLS)


def image_url(value: str) -> str:
    """What a provider takes: a URL as it is, a file as a `data:` URL. RowError when the file cannot be read."""
    if is_image_url(value):
        return value
    try:
        content = Path(value).read_bytes()
    except (OSError, ValueError) as fault:
        raise RowError(
            f"the image {value!r:.200} cannot be read: {getattr(fault, 'strerror', fault)}", kind="missing-value"
        ) from None
    try:
        return _data_url(content, _kind(content))
    except ReplyError as error:
        raise RowError(f"{value!r:.200}: {error.message}", kind="missing-value") from None


def _kind(content: bytes) -> str:
    """The media type by the first bytes."""
    for signature, kind in _SIGNATURES.items():
        if content.startswith(signature):
            return kind
    known = ", ".join(mimetypes.guess_extension(kind) or kind for kind in _SIGNATURES.values())
    raise ReplyError(f"these {len(content)} bytes are not an image that models take ({known})")


def _data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
