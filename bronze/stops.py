"""What stops a source of files, each with its way out; the other sources go on."""

from __future__ import annotations

from bronze.listing import FoundFile
from framework.errors import MainstemError

_REPLACE = "put the complete file in its place, or an empty one if its content is lost, and run again"


def vanished(found: FoundFile, source: str, more: int = 0) -> MainstemError:
    """A file that was taken up is gone before it could be read; `more` others too."""
    text = f"a file that was taken up is gone before it was read{_others(more)}"
    return _stop("FILE_VANISHED", text, found, source, "put it back, or an empty file in its place if its content is lost, and run again")


def moving(found: FoundFile, source: str) -> MainstemError:
    """A file changes while it is being read; nothing of it has landed."""
    text = "a file changes while it is being read; nothing of it has landed"
    return _stop("FILE_CHANGED", text, found, source, "let its writer finish (better: write under a hidden name and rename), and run again")


def rewritten(found: FoundFile, source: str, more: int = 0) -> MainstemError:
    """The size or time of a file has changed after its messages had landed; of `more` others too."""
    text = f"the size or the modification time of a file has changed since it was read{_others(more)}"
    action = "delete it if all its messages have landed, or give it a new name to have it read as a new file; then run again"
    return _stop("FILE_CHANGED", text, found, source, action)


def unreadable(found: FoundFile, source: str, reason: str) -> MainstemError:
    """The operating system does not hand the file out."""
    return _stop(
        "FILE_UNREADABLE", f"a file that cannot be read ({reason})", found, source, "make it readable for this user, and run again"
    )


def corrupt(found: FoundFile, source: str, reason: str) -> MainstemError:
    """The file cannot be decompressed to its end."""
    return _stop("FILE_CORRUPT", f"no whole gzip file ({reason})", found, source, _REPLACE)


def too_large(found: FoundFile, source: str, limit: int) -> MainstemError:
    """A file of an object store is larger than Spark may read whole."""
    text = f"a file of {found.size} bytes; of an object store Spark reads files whole, up to {limit}"
    return _stop("FILE_TOO_LARGE", text, found, source, f"mount the store as a folder, or split the file: {_REPLACE}")


def _stop(condition: str, text: str, found: FoundFile, source: str, action: str) -> MainstemError:
    return MainstemError(condition, found=text, where=f"source {source}, {found.path}", action=action)


def _others(more: int) -> str:
    return f", and {more} more" if more else ""
