"""The code stays plain: the limits are a tenth above the figures of November 2026."""

import attrs
import pytest

from tests.plainness import figures_of
from tests.sources import REPO


@attrs.frozen
class Limits:
    words: int
    mean: float
    ninth_decile: int
    packed: float
    comments: float
    empty_names: int


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("folder", "limits"),
    [
        ("seorep_async", Limits(82_500, 7.2, 13, 0.3, 27, 25)),
        ("seorep_async/sandbox", Limits(9_500, 7.7, 14, 0.0, 26, 3)),
        ("seorep_async/pytest_plugin", Limits(560, 6.5, 12, 0.0, 42, 0)),
        ("tests", Limits(111_000, 8.9, 15, 0.6, 9, 50)),
        ("tests/cli", Limits(8_000, 8.4, 13, 0.0, 5, 4)),
        ("tests/export", Limits(15_200, 8.2, 14, 1.3, 7, 2)),
        ("tests/faults", Limits(6_400, 8.4, 14, 0.0, 9, 2)),
        ("tests/history", Limits(6_700, 9.8, 17, 0.0, 7, 4)),
        ("tests/integrations", Limits(6_800, 9.2, 16, 1.6, 5, 2)),
        ("tests/models", Limits(4_900, 10.7, 16, 0.0, 16, 2)),
        ("tests/normalisation", Limits(6_400, 9.5, 16, 0.0, 4, 8)),
        ("tests/paging", Limits(7_000, 8.8, 14, 0.2, 13, 20)),
        ("tests/resources", Limits(5_500, 10.3, 16, 0.2, 10, 3)),
        ("tests/sandbox", Limits(7_300, 9.2, 14, 0.0, 9, 2)),
        ("tests/session", Limits(21_500, 8.7, 15, 0.2, 8, 8)),
    ],
)
def test_code_stays_plain(folder: str, limits: Limits) -> None:
    path = REPO / folder
    assert path.is_dir()
    figures = figures_of(path)
    assert figures.words <= limits.words
    assert figures.mean <= limits.mean
    assert figures.ninth_decile <= limits.ninth_decile
    assert figures.packed <= limits.packed
    assert figures.comments >= limits.comments
    assert figures.empty_names <= limits.empty_names
