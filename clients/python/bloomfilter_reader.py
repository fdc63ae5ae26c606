# SPDX-License-Identifier: PostgreSQL
# Copyright (c) 2026, the bloomfilter developers
"""Reads exported values of the PostgreSQL type bloomfilter, without PostgreSQL.

    from bloomfilter_reader import Answer, Filter

    taken = Filter.open("taken.bin")
    if taken.check(name) is Answer.NO:
        ...  # definitely not in the value
    else:
        ...  # maybe: ask the server

"No" is said of the value, so of the moment at which it was taken. It is never said for want of
knowledge: bytes that are no value raise FormatError, and an item whose key only the server knows
is Answer.ASK. The bytes are described in docs/format.md of the extension.
"""

import binascii
import enum
import hashlib
import os
import sys
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union

__all__ = ["Answer", "FileChangedError", "Filter", "FormatError"]
__version__ = "1.0.0"

_HEADER_BYTES = 16
_VERSION = 1
_MAX_HASHES = 32
_MIN_LOG2_CHUNK_BITS = 6
_MAX_LOG2_CHUNK_BITS = 13
_MAX_VALUE_BITS = 2**31

_SLICE_BITS = 13
_SLICES_FIRST = 7
_SLICES_FURTHER = 9

# What comes before the value in a file that COPY wrote: signature, flags, length of the extension,
# number of columns. Then the length of the value, the value, and the trailer.
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\1"
_COPY_BEFORE = len(_COPY_HEAD) + 4
_COPY_TRAILER = b"\xff\xff"

# The canaries of normalization "none", one for each encoding of a database.
_UTF8_CANARY = 0xE896D102
_NONE_CANARIES = frozenset((
    0xB663AC63, 0x4593D9D1, 0x43528F11, 0x3A3611C3, 0x931F5EF5, 0xCD8770E4, _UTF8_CANARY,
    0x658E0977, 0xAB4ED2E3, 0x93B754A9, 0x95EC2529, 0x4F6FD886, 0x5FE893FE, 0xDEEAA82D,
    0x1FB34317, 0xA6AE3A53, 0xF695E423, 0xC20E7BFA, 0xEFFFE715, 0xEAE9B87F, 0x2B2AD125,
    0x41DCDA9F, 0x0E05ABAF, 0xC0591401, 0xB7DA2194, 0xF17D1FBB, 0xEA802CA4, 0x0755225B,
    0x907D15CA, 0x22B81943, 0x337E7A44, 0xF1CF54C0, 0x7DE22437, 0x4172545F, 0xD3E4C4C7,
))


class Answer(enum.Enum):
    """What a value says about an item."""

    NO = "definitely not"
    MAYBE = "maybe"
    ASK = "ask the server"

    def __bool__(self) -> bool:
        """Raises TypeError: which of the three answers would be true?"""
        raise TypeError("an Answer is neither true nor false: compare it, or call might_contain()")


class FormatError(ValueError):
    """The bytes are not a value, or not of a version that this module knows."""


class FileChangedError(OSError):
    """The file was written to after it was opened, so its bits may be those of another value."""


# The key of an item as UTF-8 under each normalization, or None where only the server knows it.

def _key_of_none(item: str, canary: int) -> Optional[bytes]:
    """The item itself.  In an encoding other than UTF8 only ASCII has the same bytes as here."""
    if canary != _UTF8_CANARY and not str.isascii(item):
        return None
    return str.encode(item, "utf-8")


def _key_of_lower(item: str, canary: int) -> Optional[bytes]:
    """A-Z made a-z.  What lower() makes of other letters depends on the server's locale."""
    return str.encode(str.lower(item), "ascii") if str.isascii(item) else None


class _Normalization(NamedTuple):
    name: str
    mark: int  # the last four bytes of the header
    key: Callable[[str, int], Optional[bytes]]


# By the number in the header. Values of any other number open too, and every answer is ASK: their
# keys are the server's. Such a number may come with a mark and a canary of rules that are not known
# here.
_NORMALIZATIONS: Dict[int, _Normalization] = {
    0: _Normalization("none", 0, _key_of_none),
    1: _Normalization("lower", 0, _key_of_lower),
}


# Without it a Python in FIPS mode refuses MD5, which protects nothing here. 3.8 does not know it.
_MD5_OPTIONS: Dict[str, Any] = {"usedforsecurity": False} if sys.version_info >= (3, 9) else {}


def _md5(data: bytes) -> int:
    """md5(data) as a number of 128 bits.  Raises ValueError where Python has no MD5."""
    return int.from_bytes(hashlib.md5(data, **_MD5_OPTIONS).digest(), "big")


def _slice(digest: int, first: int) -> int:
    """The 13 bits of a digest that begin with bit `first`.  Bit 1 is the most significant."""
    return digest >> (128 - (first + _SLICE_BITS - 1)) & (1 << _SLICE_BITS) - 1


class _Memory:
    """Bytes of the caller, who must not change them."""

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data).cast("B").toreadonly()
        self.size = len(self._view)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._view[offset:offset + length])

    def close(self) -> None:
        self._view.release()


class _File:
    """A file of which only what is asked for is read.  Threads may share it, and processes too
    after a fork.  Raises FileChangedError once it was written to."""

    def __init__(self, path: Union[str, bytes, "os.PathLike[Any]"]) -> None:
        self._file = open(path, "rb", buffering=0)
        self._identity = self._identify()
        self.size = self._identity[2]
        self._lock = threading.Lock()

    def _identify(self) -> Tuple[int, int, int, int]:
        # Not the time of the last change of status: renaming another file over this one changes it.
        status = os.fstat(self._file.fileno())
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def read(self, offset: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            data = os.pread(self._file.fileno(), length, offset)
        else:  # Windows
            with self._lock:
                self._file.seek(offset)
                data = self._file.read(length)
        # After the read: what was written before it is seen.
        if self._identify() != self._identity:
            raise FileChangedError(
                "the file of the filter was changed after it was opened: write a new value to "
                "another file and rename that one")
        return data

    def close(self) -> None:
        self._file.close()


class Filter:
    """A filter value.  Never changes, and threads may share it."""

    __slots__ = ("normalization", "k", "chunk_bits", "chunks", "_canary", "_key", "_source",
                 "_first_chunk")

    def __init__(self, value: Any) -> None:
        """A value in memory, which is not copied: bytes, or what has the buffer protocol, for
        instance a mmap.  These bytes must not change.  Raises FormatError."""
        source = _Memory(value)
        self._start(source, 0, source.size)

    @classmethod
    def open(cls, path: Union[str, bytes, "os.PathLike[Any]"]) -> "Filter":
        """A value in a file, which is not loaded: a check reads at most 1 KiB.  The file has the
        value alone, or is what COPY ... WITH BINARY wrote of it.  Raises FormatError and OSError.

        To replace the value write it to another file and rename that one, and open it anew."""
        source = _File(path)
        try:
            copied = source.read(0, 1) == _COPY_HEAD[:1]
            return cls._of(source, *(cls._copied(source) if copied else (0, source.size)))
        except BaseException:
            source.close()
            raise

    @classmethod
    def from_hex(cls, text: str) -> "Filter":
        """A value in its text form, which is hex after \\x.  Raises FormatError."""
        if not isinstance(text, str):
            raise TypeError("the text form of a filter is a str, not " + type(text).__name__)
        if not text.startswith("\\x"):
            raise FormatError("not a filter value: its text form begins with \\x")
        try:
            return cls(binascii.unhexlify(text[2:]))
        except (binascii.Error, UnicodeError) as error:
            raise FormatError("not a filter value: its text form is not hex") from error

    @classmethod
    def from_copy(cls, file: Any) -> "Filter":
        """The bytes of a file that COPY ... WITH BINARY wrote of one value.  Raises FormatError."""
        source = _Memory(file)
        return cls._of(source, *cls._copied(source))

    @classmethod
    def _of(cls, source: Any, start: int, size: int) -> "Filter":
        made = cls.__new__(cls)
        made._start(source, start, size)
        return made

    @staticmethod
    def _copied(source: Any) -> Tuple[int, int]:
        """Where the value starts in a file that COPY wrote, and its length."""
        size: int = source.size - _COPY_BEFORE - len(_COPY_TRAILER)
        head = source.read(0, _COPY_BEFORE)
        if (size < 0 or head[:-4] != _COPY_HEAD or head[-4:] != size.to_bytes(4, "big")
                or source.read(_COPY_BEFORE + size, len(_COPY_TRAILER)) != _COPY_TRAILER):
            raise FormatError("not a filter value: not a COPY of one row with one column")
        return _COPY_BEFORE, size

    def _start(self, source: Any, start: int, size: int) -> None:
        """Takes the value that is at `start` of a source.  Raises FormatError."""
        header = source.read(start, _HEADER_BYTES)
        if size < _HEADER_BYTES or len(header) != _HEADER_BYTES:
            raise FormatError("not a filter value: it is too short to hold a header")
        version, k, log2_chunk_bits, code = header[:4]
        chunks = int.from_bytes(header[4:8], "big")
        canary = int.from_bytes(header[8:12], "big")
        mark = int.from_bytes(header[12:], "big")
        if version != _VERSION:
            raise FormatError("not a filter value: it has another version of the format")
        if not 1 <= k <= _MAX_HASHES:
            raise FormatError("not a filter value: its k is out of range")
        if not _MIN_LOG2_CHUNK_BITS <= log2_chunk_bits <= _MAX_LOG2_CHUNK_BITS:
            raise FormatError("not a filter value: its chunk size is out of range")
        if chunks < 1 or chunks << log2_chunk_bits > _MAX_VALUE_BITS:
            raise FormatError("not a filter value: its number of chunks is out of range")
        normalization = _NORMALIZATIONS.get(code)
        if normalization is not None:
            if mark != normalization.mark:
                raise FormatError("not a filter value: its reserved bytes are not zero")
            if (canary in _NONE_CANARIES) != (normalization.name == "none"):
                raise FormatError(
                    "not a filter value: its canary does not belong to its normalization")
        if size != _HEADER_BYTES + (chunks << log2_chunk_bits >> 3):
            raise FormatError("not a filter value: its length is not what its header says")
        _md5(b"")  # without MD5 there is nothing to be read
        self.normalization = normalization.name if normalization else "number %d" % code
        self.k = k
        self.chunk_bits = 1 << log2_chunk_bits
        self.chunks = chunks
        self._canary = canary
        self._key = normalization.key if normalization else None
        self._source = source
        self._first_chunk = start + _HEADER_BYTES

    def check(self, item: str) -> Answer:
        """What the value says about an item, a str as the server would get it.

        NO: it is definitely not in the value.  MAYBE: it might be.  ASK: only the server knows,
        since its key depends on the server, or it is no text that the server could hold (a NUL, a
        surrogate without its other half).  Raises TypeError for anything else than a str."""
        if not isinstance(item, str):
            raise TypeError("an item is a str, not " + type(item).__name__)
        if self._key is None or str.__contains__(item, "\0"):
            return Answer.ASK
        try:
            key = self._key(item, self._canary)
        except UnicodeEncodeError:
            return Answer.ASK
        if key is None:
            return Answer.ASK
        return Answer.MAYBE if self._has(key) else Answer.NO

    def might_contain(self, item: str) -> bool:
        """False only if the item is definitely not in the value."""
        return self.check(item) is not Answer.NO

    __contains__ = might_contain

    def _has(self, key: bytes) -> bool:
        """Whether all bits of a key are set."""
        digest = _md5(key)
        chunk = (digest >> 111 << 20 | digest & 0xFFFFF) * self.chunks >> 37
        chunk_bytes = self.chunk_bits >> 3
        bits = self._source.read(self._first_chunk + chunk * chunk_bytes, chunk_bytes)
        if len(bits) != chunk_bytes:
            raise FormatError("the value was cut off after it was opened")
        first = 18
        for i in range(self.k):
            nth = i - _SLICES_FIRST
            if nth >= 0 and nth % _SLICES_FURTHER == 0:
                digest = _md5(b"%d:" % (nth // _SLICES_FURTHER + 1) + key)
                first = 1
            position = _slice(digest, first) * self.chunk_bits >> _SLICE_BITS
            if not bits[position >> 3] & 0x80 >> (position & 7):
                return False
            first += _SLICE_BITS
        return True

    def close(self) -> None:
        """Closes the file.  A check afterwards raises ValueError."""
        self._source.close()

    def __enter__(self) -> "Filter":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
