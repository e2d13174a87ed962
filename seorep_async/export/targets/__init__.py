"""The kinds of targets, a file each; the code below them knows a folder, a format and a label."""

from seorep_async.export.targets.choose import dataset_of, target_of
from seorep_async.export.targets.target import Target

__all__ = ["Target", "dataset_of", "target_of"]
