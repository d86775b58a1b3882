"""PyYAML's scanner and parser, both of which work without recursion, with YAML 1.2's white space."""

from __future__ import annotations

import re

from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

_BLANK = re.compile(r"[ \t]*[#\r\n\0]")


class Events(Reader, Scanner, Parser):
    """PyYAML's parser, which also takes tabs as separation where YAML 1.2 does (section 6.2)."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def scan_to_next_token(self) -> None:
        """Skip tabs in flow collections, behind a token of the line, and on blank lines; never as indentation."""
        super().scan_to_next_token()
        while self.peek() == "\t" and self._separates():
            while self.peek() in " \t":
                self.forward()
            super().scan_to_next_token()

    def _separates(self) -> bool:
        if self.flow_level or _BLANK.match(self.buffer, self.pointer):
            return True
        return bool(self.buffer[self.pointer - self.column : self.pointer].strip(" \t-?"))
