"""From YAML text to data of bounded size, and the line on which everything in it stands.

PyYAML's own loader follows a page of aliases and merge keys into gigabytes, computes base-60
numbers of any length, and forgets the lines. So nodes are made here, from its parser's events.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml._yaml import CParser

from basics.units import shown

MOST_NODES = 100_000  # keys, values and entries, counting what an alias repeats
DEEPEST = 32
LONGEST_TEXT = 10_000
LONGEST_NUMBER = 40  # characters

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
_implicit: Any = yaml.resolver.Resolver()
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Unreadable(ValueError):
    """Not YAML, or not YAML that anybody would write by hand. `line` counts from 1; 0: unknown."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Node:
    """A value of the file, and where it and what is in it stand."""

    data: Any
    line: int
    size: int  # nodes, this one included
    below: Mapping[str, tuple[int, "Node"]] = field(default_factory=dict)  # by key or index


class _Composer:
    """From a parser's events to nodes; counts as it goes."""

    def __init__(self, text: str) -> None:
        self._parser: Any = CParser(text)
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def root(self) -> Node | None:
        """What the text holds; None if it holds nothing."""
        self._parser.get_event()  # the stream's start
        if self._parser.check_event(yaml.StreamEndEvent):
            return None
        self._parser.get_event()  # the document's start
        root = self._node(0)
        self._parser.get_event()  # the document's end
        if not self._parser.check_event(yaml.StreamEndEvent):
            line = self._parser.peek_event().start_mark.line + 1
            raise Unreadable(line, "found a second document (---); a file has one")
        return root

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise Unreadable(line, f"found more than {MOST_NODES} keys and values (with aliases)")

    def _node(self, depth: int) -> Node:
        event = self._parser.get_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unreadable(line, f"found *{event.anchor}, but no complete &{event.anchor}")
            node = self._anchors[event.anchor]
            self._count(node.size, line)
            return node
        if depth > DEEPEST:
            raise Unreadable(line, f"found brackets or blocks nested too deeply, over {DEEPEST}")
        before = self._nodes
        self._count(1, line)
        if isinstance(event, yaml.ScalarEvent):
            node = Node(_scalar(event, line), line, 1)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth, before)
        else:
            node = self._mapping(event, depth, before)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _sequence(self, event: Any, depth: int, before: int) -> Node:
        line = _plain(event, "seq")
        nodes = []
        while not self._parser.check_event(yaml.SequenceEndEvent):
            here = self._parser.peek_event().start_mark.line + 1
            nodes.append((here, self._node(depth + 1)))
        self._parser.get_event()
        below = {str(index): entry for index, entry in enumerate(nodes)}
        return Node([node.data for _, node in nodes], line, self._nodes - before, below)

    def _mapping(self, event: Any, depth: int, before: int) -> Node:
        line = _plain(event, "map")
        data: dict[Any, Any] = {}
        below: dict[str, tuple[int, Node]] = {}
        merged: list[Node] = []
        while not self._parser.check_event(yaml.MappingEndEvent):
            merges = _is_merge(self._parser.peek_event())
            here = self._parser.peek_event().start_mark.line + 1
            key = self._node(depth + 1).data
            node = self._node(depth + 1)
            if merges:
                merged += self._to_merge(node, here)
                continue
            if isinstance(key, list | dict):
                raise Unreadable(here, f"found {shown(key)} as a key; a key is a word")
            if key in data:
                raise Unreadable(here, f"found the key {shown(key)} twice")
            data[key] = node.data
            below[str(key)] = here, node
        self._parser.get_event()
        if merged:  # what is nearer wins: own keys, then the first that is merged
            parts = [*reversed([(node.data, node.below) for node in merged]), (data, below)]
            data = {key: value for part, _ in parts for key, value in part.items()}
            below = {key: entry for _, part in parts for key, entry in part.items()}
        return Node(data, line, self._nodes - before, below)

    def _to_merge(self, node: Node, line: int) -> list[Node]:
        found = [entry for _, entry in node.below.values()] if type(node.data) is list else [node]
        for one in found:
            if not isinstance(one.data, dict):
                raise Unreadable(line, f"found {shown(one.data)} beside <<; it merges mappings")
            self._count(one.size, line)
        return found


def _is_merge(event: Any) -> bool:
    plain = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
    return plain or getattr(event, "tag", None) == MERGE


def _plain(event: Any, kind: str) -> int:
    """The line of a list or mapping that is nothing else by its tag."""
    line: int = event.start_mark.line + 1
    if event.tag not in (None, "!", f"{TAG}{kind}"):
        raise Unreadable(line, f"found the tag {shown(event.tag)}; only plain YAML is read")
    return line


def _scalar(event: Any, line: int) -> Any:
    """Text, a number, true, false or nothing. Dates stay text, and so do the forms of numbers that
    nobody means: 1:30 (90 in YAML 1.1) and 010 (8)."""
    text: str = event.value
    if len(text) > LONGEST_TEXT:
        raise Unreadable(line, f"found a text of {len(text)} characters; {LONGEST_TEXT} are most")
    tag = event.tag
    if tag is None:
        tag = _implicit.resolve(yaml.ScalarNode, text, event.implicit)
    kind = tag.removeprefix(TAG)
    if kind in ("str", "!", "timestamp", "value", "merge"):
        return text
    digits = text.replace("_", "").lower()
    try:
        if kind == "null" and digits in ("", "~", "null"):
            return None
        if kind == "bool":
            return WORDS[digits]
        if kind == "int":
            surprising = ":" in digits or re.match("[-+]?0[0-9]", digits)
            return text if surprising or len(digits) > LONGEST_NUMBER else int(digits, 0)
        if kind == "float":
            short = ":" not in digits and len(digits) <= LONGEST_NUMBER
            return float(re.sub(r"\.(inf|nan)$", r"\1", digits)) if short else text
    except (KeyError, ValueError):
        pass
    raise Unreadable(
        line, f"found {shown(text)} with the tag {shown(tag)}; only plain YAML is read"
    )


def composed(text: str) -> Node | None:
    """What is in a YAML text. Raises Unreadable."""
    try:
        return _Composer(text).root()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise Unreadable(line, f"not valid YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.encode().count(b"\n", 0, error.position) + 1
        raise Unreadable(line, "not valid YAML: a character that it forbids") from None
