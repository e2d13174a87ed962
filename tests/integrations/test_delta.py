"""The guide's recipe for a Delta table replaces a night, except for failed campaigns."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seorep_async import Feed, SeoRepError, Settings
from seorep_async.guides import pages
from seorep_async.integrations.engines import pull_table, table_schema
from tests.integrations.service import WINDOW, names_of_the_guide, served

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

deltalake = pytest.importorskip("deltalake")

IDS = [1, 2, 3]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function of the guide, which writes to the folder `delta`."""
    monkeypatch.chdir(tmp_path)
    recipe = r"```python engines\n(import pyarrow.compute.*?\n)\n\ntry:\n    failures = store\("
    (lines,) = re.findall(recipe, pages()["engines"], re.DOTALL)
    names = names_of_the_guide()
    exec(lines, names)  # noqa: S102
    return names["store"]


def night(*, failing: tuple[int, ...] = (), **window: str) -> pa.Table:
    with served(campaigns=3, keywords=10, failing=failing):
        how: dict[str, Any] = {"on_error": "rows", "settings": Settings(max_attempts=1)}
        return pull_table(IDS, **{**WINDOW, **window}, **how)


def rows_of_campaigns() -> Counter[int]:
    return Counter(deltalake.DeltaTable("delta").to_pyarrow_table()["campaign_id"].to_pylist())


def test_a_campaign_that_fails_in_a_rerun_keeps_its_rows(store: Any) -> None:
    store(night())
    store(night(failing=(2,)))
    assert rows_of_campaigns() == {1: 10, 2: 10, 3: 10}


def test_a_night_without_rows_writes_nothing(store: Any) -> None:
    store(night())
    with pytest.raises(SeoRepError, match="nothing to store: campaign 1: "):
        store(night(failing=(1, 2, 3)))
    store(table_schema(on_error="rows").empty_table())
    assert deltalake.DeltaTable("delta").version() == 0


def test_a_failed_report_is_no_row(store: Any) -> None:
    store(night(failing=(2,)))
    table = deltalake.DeltaTable("delta").to_pyarrow_table()
    assert table.schema.names == table_schema(Feed.CAMPAIGN).names
    assert rows_of_campaigns() == {1: 10, 3: 10}


def test_only_the_rows_of_its_own_account_are_replaced(store: Any) -> None:
    for account in ("d'Arc", "d'Arc", "acme"):
        store(night(account=account))
    accounts = deltalake.DeltaTable("delta").to_pyarrow_table()["account"].to_pylist()
    assert Counter(accounts) == {"d'Arc": 30, "acme": 30}


def test_two_months_in_one_table_are_refused(store: Any) -> None:
    months = [night(), night(start_date="2023-02-01")]
    with pytest.raises(ValueError, match="too many values to unpack"):
        store(pa.concat_tables(months))
