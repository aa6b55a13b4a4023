"""XML from strangers: no document types, no entities, limits on depth, size and count; every element knows its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from interlock.errors import InvalidInput, LimitExceeded
from interlock.units import whole_or_none

__all__ = ["Element", "parse_xml", "whole_number"]

MAX_DEPTH = 64
MAX_ELEMENTS = 600_000
MAX_ATTRIBUTES = 64
MAX_VALUE_LENGTH = 4096
MAX_COMMENTS = 256


@dataclass(slots=True)
class Element:
    """A tag with its attributes and children; text between tags is not kept."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Direct children of that name."""
        return (child for child in self.children if child.name == name)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in file order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Document:
    """The root element and the comments of a file."""

    root: Element
    comments: tuple[str, ...]


def parse_xml(data: bytes, file: Path | str) -> Document:
    """The tree of an XML file.

    >>> parse_xml(b'<a x="1"><b/></a>', "example").root.children[0].name
    'b'
    """
    builder = _Builder(str(file))
    parser = expat.ParserCreate(intern={})
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: builder.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler = builder.end
    parser.CommentHandler = builder.comment
    parser.StartDoctypeDeclHandler = builder.refuse_doctype
    parser.EntityDeclHandler = builder.refuse_entity
    try:
        parser.Parse(data, True)  # all at once: of a value cut in pieces, each would be read from its beginning again
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "error")
        raise InvalidInput(f"{file}, line {error.lineno}: not well-formed XML ({reason})") from None
    except (LookupError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file}: its encoding is not known or not kept to") from None
    if builder.root is None:
        raise InvalidInput(f"{file} holds no XML element")
    return Document(builder.root, tuple(builder.comments))


class _Builder:
    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Element | None = None
        self.comments: list[str] = []
        self.stack: list[Element] = []
        self.count = 0
        self.shared: dict[str, str] = {}  # equal values share one string

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        self.count += 1
        if self.count > MAX_ELEMENTS:
            raise LimitExceeded(f"{self.file}, line {line}: more than {MAX_ELEMENTS} elements")
        if len(self.stack) >= MAX_DEPTH:
            raise LimitExceeded(f"{self.file}, line {line}: elements are nested more than {MAX_DEPTH} deep")
        if len(attributes) > MAX_ATTRIBUTES or any(len(v) > MAX_VALUE_LENGTH for v in attributes.values()):
            raise LimitExceeded(
                f"{self.file}, line {line}: <{name[:64]}> has more than {MAX_ATTRIBUTES} attributes or one longer than "
                f"{MAX_VALUE_LENGTH} characters"
            )
        shared = self.shared
        if len(shared) > MAX_ELEMENTS:
            shared.clear()
        element = Element(name, {key: shared.setdefault(value, value) for key, value in attributes.items()}, line)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def end(self, name: str) -> None:
        self.stack.pop()

    def comment(self, text: str) -> None:
        if len(self.comments) < MAX_COMMENTS:
            self.comments.append(text[:MAX_VALUE_LENGTH])

    def refuse_doctype(self, name: str, *rest: object) -> None:
        raise InvalidInput(f"{self.file}: document types are not read (<!DOCTYPE {name[:40]} …>)")

    def refuse_entity(self, *names: object) -> None:
        raise InvalidInput(f"{self.file}: entities are not read (<!ENTITY …>)")


def whole_number(element: Element, key: str, where: str, least: int = 0, most: int = 2**31 - 1) -> int:
    """An attribute that must be there, a whole number, and in range."""
    text = element.attributes.get(key)
    if text is None:
        raise InvalidInput(f"{where}: <{element.name}> on line {element.line} lacks {key!r}")
    value = whole_or_none(text)
    if value is None:
        raise InvalidInput(f"{where}: {key}={text[:40]!r} is not a whole number")
    if not least <= value <= most:
        raise InvalidInput(f"{where}: {key}={value} must be between {least} and {most}")
    return value
