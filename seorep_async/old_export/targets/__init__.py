"""The kinds of targets, a file each, and how one is chosen; the code below knows a folder, a format and a label."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from seorep_async.errors import ConfigurationError
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import os_message, resolve
from seorep_async.old_export.formats import Format
from seorep_async.old_export.storage import is_address, storage_of
from seorep_async.old_export.targets.database import DatabaseTarget
from seorep_async.old_export.targets.dataset import DatasetTarget
from seorep_async.old_export.targets.files import FilesTarget, StoredFilesTarget
from seorep_async.old_export.targets.target import Place, Target, refusal
from seorep_async.tables.optional import require

__all__ = ["Target", "dataset_of", "target_of"]

_KINDS = (DatasetTarget, DatabaseTarget, StoredFilesTarget, FilesTarget)


def target_of(
    out: str | os.PathLike[str],
    feeds: Sequence[Feed],
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    account: str | None = None,
) -> Target:
    """Return the target of a path or an address, after a look at it; a name that ends in `/` is a dataset.

    ConfigurationError: nothing can be written there, or a file of another program must not be replaced.
    """
    try:
        folder = None if work_dir is None else resolve(Path(work_dir))
        if folder is not None and not folder.is_dir():
            raise refusal(out, f"the work folder {folder} does not exist; create it first")
        within, _, name = str(out).rpartition("/")
        if is_address(out) and not name:
            require("obstore", "duckdb")  # one message names both
        path = resolve(Path(name if is_address(out) else out))
        storage = storage_of(f"{within}/" if is_address(out) else str(path), storage_options)
        if not path.parent.is_dir():
            raise refusal(out, f"there is no folder {path.parent}; create it first")
        formats = {} if path.is_dir() and not is_address(out) else {kind.value: kind for kind in Format}
        place = Place(
            out=str(out),
            path=path,
            format=formats.get(path.suffix.lower()),
            is_address=is_address(out),
            storage=storage,
            given={"feeds": tuple(feeds), "force": force, "work_dir": folder, "account": account},
        )
        for kind in _KINDS:
            if (target := kind.at(place)) is not None:
                return target
        slash = "/" if isinstance(out, str) else "/ (as a string: a Path drops it)"
        if not formats:
            raise refusal(out, f"it is a folder; name a file in it, or end the name in {slash} for a dataset")
        raise refusal(
            out, f"the name must end in {', '.join([*formats][:-1])} or {[*formats][-1]}, or in {slash} for a dataset"
        )
    except ConfigurationError:
        raise
    except (OSError, ValueError) as error:
        raise refusal(out, os_message(error)) from error
    except TypeError:
        raise ConfigurationError(f"out must be a path, got {type(out).__name__}", argument="out") from None


def dataset_of(
    out: str | os.PathLike[str], feeds: Sequence[Feed], storage_options: Mapping[str, Any] | None = None
) -> DatasetTarget:
    """Return the dataset of a path or an address, with or without a slash at the end; raises as `target_of`."""
    if not isinstance(out, str | os.PathLike) or not isinstance(path := os.fspath(out), str):
        raise ConfigurationError(f"out must be a path, got {type(out).__name__}", argument="out")
    if path in ("", "-"):
        raise ConfigurationError(f"out must name the folder or the address of a dataset, got {path!r}", argument="out")
    named = path if path.endswith(("/", os.sep)) else f"{path}/"
    return cast(DatasetTarget, target_of(named, feeds, storage_options=storage_options))
