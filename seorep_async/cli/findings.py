"""What `seorep doctor` finds."""

from __future__ import annotations

import enum

import attrs


class Verdict(enum.Enum):
    """How good a finding is."""

    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    FACT = "fact"


@attrs.frozen
class Finding:
    """One finding: how good it is, what it is about, and what it is."""

    verdict: Verdict
    subject: str
    words: str
