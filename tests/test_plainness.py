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
        ("seorep_async", Limits(81_000, 7.2, 13, 0.3, 27, 25)),
        ("seorep_async/models", Limits(2_200, 7.2, 12, 0.0, 30, 0)),
        ("seorep_async/export", Limits(14_700, 7.1, 13, 0.0, 38, 0)),
        ("seorep_async/tables", Limits(3_550, 7.3, 13, 0.0, 28, 0)),
        ("seorep_async/normalisation", Limits(4_000, 6.8, 12, 0.0, 30, 0)),
        ("seorep_async/sandbox", Limits(8_560, 7.5, 14, 0.0, 29, 0)),
        ("seorep_async/pytest_plugin", Limits(560, 6.5, 12, 0.0, 42, 0)),
        ("tests", Limits(87_500, 8.4, 14, 0.1, 12, 27)),
        ("tests/cli", Limits(6_400, 8.2, 13, 0.0, 8, 3)),
        ("tests/export", Limits(11_050, 7.9, 14, 0.0, 8, 0)),
        ("tests/faults", Limits(2_850, 8.2, 14, 0.0, 14, 0)),
        ("tests/history", Limits(5_050, 8.8, 15, 0.0, 10, 3)),
        ("tests/integrations", Limits(5_600, 8.7, 15, 0.0, 9, 0)),
        ("tests/models", Limits(3_600, 9.3, 15, 0.0, 18, 0)),
        ("tests/normalisation", Limits(5_100, 8.8, 15, 0.0, 9, 6)),
        ("tests/paging", Limits(4_300, 8.7, 14, 0.0, 27, 7)),
        ("tests/resources", Limits(4_150, 9.2, 15, 0.0, 13, 0)),
        ("tests/sandbox", Limits(3_850, 8.8, 14, 0.0, 11, 0)),
        ("tests/session", Limits(19_300, 8.0, 14, 0.0, 13, 5)),
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
