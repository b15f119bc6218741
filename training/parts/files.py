"""Files of parts: a SHA-256, and the content that it is of."""

import hashlib

from common import storage
from common.storage import StoragePath

_DIGEST_BYTES = hashlib.sha256().digest_size


def write_part(path: StoragePath, content: bytes) -> None:
    """Write a part, completely or not at all."""
    storage.write_atomic(path, hashlib.sha256(content).digest() + content)


def read_part(path: StoragePath) -> bytes | None:
    """Return the content of a part; None if it is missing or damaged."""
    try:
        found = storage.read_bytes(path)
    except FileNotFoundError:
        return None
    digest, content = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None
