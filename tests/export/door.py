"""The one way of these tests to what is below the public names of `seorep_async.export`."""
# ruff: noqa: F401

from seorep_async.export import local_folder, lock, sinks, spec
from seorep_async.export.atomic_replace import translate_errors
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.database_file import LATEST, make_table
from seorep_async.export.formats import (
    DamagedError,
    Format,
    RowsFile,
    StagedReport,
    arrow_tables,
    encode,
    encode_totals,
)
from seorep_async.export.local_folder import LocalFolder
from seorep_async.export.lock import AtWorkError, HeldError, Holder, PullLock, write_lock
from seorep_async.export.night import Part, Partition, Receipt, digest_of, escape, from_json
from seorep_async.export.notes import failed_reports
from seorep_async.export.preview import PullPreview, preview
from seorep_async.export.progress import ProgressTracker, PullFailure, StagedPull
from seorep_async.export.pull_to import run_export, stream_rows
from seorep_async.export.receipts import busy, commit, last_receipt, read_receipt
from seorep_async.export.replacement import Replacement
from seorep_async.export.sinks import encoded
from seorep_async.export.spec import PullSpec, SpecOptions, differences
from seorep_async.export.staging_area import StagingArea, staged_in
from seorep_async.export.storage import RECEIPTS, Storage, each, storage_of
from seorep_async.export.targets import Target, dataset, dataset_of, target_of
from seorep_async.export.targets.database import DatabaseTarget, insert
from seorep_async.export.targets.dataset import part_table, write_parts
from seorep_async.export.targets.target import Contents
