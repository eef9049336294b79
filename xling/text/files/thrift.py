"""Thrift's compact protocol as plain values, for the footers and page indexes of Parquet files.

A struct is a mapping of field numbers to ``(type, value)``. A list is ``(type of its items, items)``. What was read is
written back in the same bytes. pyarrow reads footers too, but does not say where the page index lies, and cannot write
the footer of a part of a file. Source: apache/thrift, ``doc/specs/thrift-compact-protocol.md``.
"""

from typing import Any, TypeAlias

Struct: TypeAlias = dict[int, tuple[int, Any]]
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 32
_MAX_VARINT_BYTES = 10
MAX_VALUES = 1 << 22
"""Of one struct, at any depth: an empty one is a byte in a file, and much more in memory."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.num_values = data, 0, 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) != size:
            raise ValueError("the metadata ends inside a value")
        self.at += size
        return piece

    def varint(self) -> int:
        value = 0
        for shift in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * shift)
            if byte < 0x80:
                return value
        raise ValueError("a number of the metadata does not end")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("metadata nested too deeply")
        self.num_values += 1
        if self.num_values > MAX_VALUES:
            raise ValueError(f"metadata of more than {MAX_VALUES:,} values")
        if kind in (TRUE, FALSE, BYTE):  # outside of a field, where the type itself is the value
            return self.take(1)[0]
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == DOUBLE:
            return self.take(8)
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            head = self.take(1)[0]
            size = self.varint() if head >> 4 == 15 else head >> 4
            return head & 15, [self.value(head & 15, depth + 1) for _ in range(self._checked(size))]
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"metadata of an unknown type {kind}")

    def _checked(self, size: int) -> int:
        if size > len(self.data) - self.at:  # an item has a byte at the least
            raise ValueError("the metadata ends inside a list")
        return size

    def struct(self, depth: int = 0) -> Struct:
        fields: Struct = {}
        number = 0
        while head := self.take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            fields[number] = (kind, None if kind in (TRUE, FALSE) else self.value(kind, depth))
        return fields


def read_struct(data: bytes) -> tuple[Struct, int]:
    """Return the struct at the beginning of ``data``, and how many bytes it has (ValueError: it is none)."""
    reader = _Reader(data)
    return reader.struct(), reader.at


def get(struct: Struct, number: int, default: Any = None) -> Any:
    """Return the value of a field; lists without their items' type (ValueError: not of the type of ``default``)."""
    kind, value = struct.get(number, (0, default))
    value = value[1] if kind in (LIST, SET) else value
    if default is not None and type(value) is not type(default):
        raise ValueError(f"field {number} of the metadata is no {type(default).__name__}")
    return value


def written(struct: Struct) -> bytes:
    """Return the bytes of a struct."""
    output = bytearray()
    _write(output, STRUCT, struct)
    return bytes(output)


def _write_varint(output: bytearray, value: int) -> None:
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def _write(output: bytearray, kind: int, value: Any) -> None:
    if kind in (TRUE, FALSE, BYTE):
        output.append(value)
    elif kind in (I16, I32, I64):
        _write_varint(output, value << 1 if value >= 0 else (-value << 1) - 1)
    elif kind == DOUBLE:
        output += value
    elif kind == BINARY:
        _write_varint(output, len(value))
        output += value
    elif kind in (LIST, SET):
        item, values = value
        output.append(min(len(values), 15) << 4 | item)
        if len(values) >= 15:
            _write_varint(output, len(values))
        for each in values:
            _write(output, item, each)
    else:
        last = 0
        for number, (field_kind, field) in sorted(value.items()):
            delta = number - last
            output.append((delta if 0 < delta < 16 else 0) << 4 | field_kind)
            if not 0 < delta < 16:
                _write(output, I16, number)
            if field_kind not in (TRUE, FALSE):
                _write(output, field_kind, field)
            last = number
        output.append(0)
