"""A YAML 1.2 file as plain values, with the place of every key and value.

PyYAML supplies the events; what they mean is decided in ``tree`` and ``scalars``.
"""

from __future__ import annotations

import codecs
import pathlib
import re
from difflib import get_close_matches

from yaml.error import MarkedYAMLError
from yaml.reader import Reader

from verdict_cli.errors import Problem, SpecError
from verdict_cli.spec.events import Events
from verdict_cli.spec.places import Document, Path, Position, spell
from verdict_cli.spec.syntax import plain_words
from verdict_cli.spec.tree import Tree

__all__ = ["MAX_BYTES", "Document", "Path", "Position", "parse_document", "read_document", "spell"]

MAX_BYTES = 10 * 1024 * 1024


def read_document(path: pathlib.Path) -> Document:
    """The document in a file. Raises SpecError when it cannot be opened or is no YAML mapping."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError([Problem("not-found", "there is no such file", _nearest_file(path), file)]) from None
    except IsADirectoryError:
        hint = "Name a pipeline file in it."
        raise SpecError([Problem("not-a-file", "this is a directory, not a file", hint, file)]) from None
    except PermissionError:
        hint = "Check who may read it: `ls -l`."
        raise SpecError([Problem("not-readable", "no permission to read this file", hint, file)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError([Problem("not-readable", f"the file cannot be read: {reason}", "", file)]) from None
    return parse_document(text, file)


def _nearest_file(path: pathlib.Path) -> str:
    """The hint for a file that is missing."""
    from verdict_cli.spec.shipped import configs

    if path.stem in configs():
        return f"The pipeline {path.stem} comes with verdict: give its name, {path.stem}, without folder and ending."
    if not path.parent.is_dir():
        return f"There is no directory {path.parent} either."
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.with_name(near[0])}?" if near else "Check the file's name."


def parse_document(text: bytes, file: str) -> Document:
    """The document in a file's bytes; ``file`` is its name in messages.

    Raises SpecError with every problem of the values; a problem of the syntax ends the reading.
    """
    if len(text) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1024**2} MiB"
        hint = "A pipeline file holds prompts and settings; data belongs into a dataset."
        raise SpecError([Problem("too-large", message, hint, file)])
    decoded = _decode(text, file)
    # YAML 1.2 breaks lines at LF and CR only, PyYAML also at these; it drops a byte order mark at the start.
    # Characters for private use that the file names neither as they are nor as an escape stand in for them.
    used = set(map(ord, set(decoded))) | {
        int(code, 16) for code in re.findall(r"\\U([0-9a-fA-F]{8})", decoded)
    }
    free = (code for code in range(0xF0000, 0x10FFFE) if code not in used)
    away = dict(zip(map(ord, "\x85\u2028\u2029\ufeff"), free, strict=False))
    back = {code: chr(special) for special, code in away.items()}
    source = Events(decoded.translate(away))
    tree = Tree(file, back)
    try:
        while source.check_event():
            tree.take(source.get_event())  # type: ignore[no-untyped-call]
    except MarkedYAMLError as error:
        tree.stop(*plain_words(error, source.buffer))
    except (ValueError, OverflowError):
        # chr() and int() refuse `"\UFFFFFFFF"` and an endless number behind `%YAML`; PyYAML lets that through.
        hint = "`\\U` goes up to `\\U0010FFFF`."
        tree.stop("yaml-syntax", "a number is out of range", hint, source.get_mark())
    return tree.finish()


def _decode(text: bytes, file: str) -> str:
    """The text without its byte order mark; UTF-8 and printable, or SpecError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        message = "the file is UTF-16 or UTF-32, expected UTF-8"
        raise SpecError([Problem("not-utf8", message, "Save it as UTF-8.", file, 1, 1)])
    text = text.removeprefix(codecs.BOM_UTF8)
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        at = _place(text[: error.start].decode("utf-8"))
        message = f"byte 0x{text[error.start]:02x} is not valid UTF-8"
        raise SpecError(
            [Problem("not-utf8", message, "Save the file as UTF-8.", file, at.line, at.column)]
        ) from None
    bad = Reader.NON_PRINTABLE.search(decoded)
    if bad:
        at = _place(decoded[: bad.start()])
        message = f"the control character U+{ord(bad[0]):04X} is not allowed in YAML"
        hint = 'Remove it, or write it as an escape in double quotes, such as "\\x07".'
        raise SpecError([Problem("control-character", message, hint, file, at.line, at.column)])
    return decoded


def _place(before: str) -> Position:
    """The position behind this text."""
    before = before.replace("\r\n", "\n").replace("\r", "\n")
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
