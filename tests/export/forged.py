"""A shared folder that somebody prepared: what is forged in it, and private files outside that nothing may touch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.export.reports import NIGHT

FOLDER = f"account=acme/snapshot_date={NIGHT}"
RECEIPT = f"_receipts/{FOLDER}.json"
PART = f"keyword_rankings/{FOLDER}/part-00000.parquet"
SECRET = b"a private file"
LINE = r"^[^\n]*$"
OTHER_PULL = "0123456789ab"


def private_files(beside: Path) -> Path:
    """Make a folder with private files, beside which a dataset stands."""
    folder = beside / "private"
    for name in ("secret.txt", "tree/a/b.txt", "tree/c.txt", f"{FOLDER}/part-00000.parquet", f"{FOLDER}.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(SECRET)
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_nlink) for path in files}


def change(name: str, **changes: Any) -> Callable[[Path], None]:
    """Return a function that changes fields of a JSON file; `part` changes those of the first part."""

    def forge(out: Path) -> None:
        found = json.loads((out / name).read_bytes())
        for part in found["parts"][:1]:
            part |= changes.pop("part", {})
        (out / name).write_text(json.dumps(found | changes))

    return forge
