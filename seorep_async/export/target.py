"""Where an export goes: one database, or a file for each table."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.export.errors import reason
from seorep_async.export.formats import Format
from seorep_async.models import Feed


@attrs.frozen
class Target:
    """The place of an export.

    Attributes:
        path: what was named, links followed; with several feeds, what the files' names are made of.
        named: what was named, as it was.
        format: what it is written as.
        feeds: the feeds whose rows go there.
    """

    path: Path
    named: Path
    format: Format
    feeds: tuple[Feed, ...]

    def rows(self, feed: Feed) -> Path:
        """Return the file of a feed's rows: the path itself if there is one feed, or else `name.FEED.ending`."""
        if self.format is Format.DUCKDB or len(self.feeds) == 1:
            return self.path
        return self._beside(feed.value)

    @property
    def totals(self) -> Path:
        """The file of the totals, `name.totals.ending`."""
        return self._beside("totals")

    @property
    def failures(self) -> Path:
        """The file of the failures, `name.failures.ending`."""
        return self._beside("failures")

    @property
    def work_folder(self) -> Path:
        """The hidden folder beside it, in which what has come so far is kept."""
        # cut, so that it does not outgrow what the file system allows, and still one for each target
        mark = hashlib.sha256(self.path.name.encode(errors="surrogateescape")).hexdigest()[:8]
        name = self.path.name if len(self.path.name.encode(errors="surrogateescape")) <= 200 else mark
        return self.path.with_name(f".{name}.pull")

    def files(self) -> Iterator[Path]:
        """Give every file that may be written."""
        if self.format is Format.DUCKDB:
            yield self.path
        else:
            yield from (self.rows(feed) for feed in self.feeds)
            yield self.totals
            yield self.failures

    def as_named(self, file: Path) -> Path:
        """Return a file's path in the words in which the target was named: relative if it was."""
        if self.named.is_symlink():
            return self.named if file == self.path else file
        return self.named.with_name(file.name)

    def _beside(self, word: str) -> Path:
        return self.path.with_name(f"{self.path.stem}.{word}{self.path.suffix}")


def target_of(out: str | os.PathLike[str], feeds: Sequence[Feed]) -> Target:
    """Return the target that a path names, after a look at the place.

    Raises:
        ConfigurationError: the ending is none of the formats', or no file can be written there.
        ImportError: the format needs an extra.
    """
    endings = [kind.value for kind in Format]
    try:
        named = Path(out)
        path = Path(os.path.realpath(named))
        if path.is_dir():
            raise _refusal(out, "it is a folder; name a file in it")
        ending = path.suffix.lower()
        if ending not in endings:
            raise _refusal(out, f"the name must end in {', '.join(endings[:-1])} or {endings[-1]}")
        target = Target(path, named, Format(ending), tuple(feeds))
        if not path.parent.is_dir():
            raise _refusal(out, f"there is no folder {path.parent}; create it first")
        for file in target.files():
            _check_file(out, file)
    except ConfigurationError:
        raise
    except (OSError, ValueError) as error:
        raise _refusal(out, reason(error)) from error
    except TypeError:
        raise ConfigurationError(f"out must be a path, got {type(out).__name__}") from None
    target.format.require_extra()
    return target


def _check_file(out: object, file: Path) -> None:
    try:
        found = file.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found):
        raise _refusal(out, f"{file.name} is a folder; name another file")
    if not stat.S_ISREG(found):
        raise _refusal(out, f"{file.name} is not a regular file; name another")
    if not os.access(file, os.W_OK):
        raise _refusal(out, f"{file.name} is read-only; name another file")


def _refusal(out: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't write {out}: {problem}")
