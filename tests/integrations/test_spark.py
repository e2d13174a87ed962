"""The data source of Spark, on a session of this machine.

`TEST_KILLS=10` kills as many workers, one after the other, each at another point.
"""

import importlib
import os
import re
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from seorep_async import Feed
from seorep_async.shards import gather
from seorep_async.tables.declared import all_tables, table_of
from tests.integrations.service import (
    CANARY,
    END,
    FAULTY,
    KEY,
    MIXED,
    START,
    WHOSE,
    alone,
    assert_key_in_no_file,
    assert_same,
    killing,
    note_process,
    served,
)

pyspark_sql = pytest.importorskip("pyspark.sql")
guide = importlib.import_module("seorep_async.integrations.spark").__doc__
if shutil.which("java") is None:
    pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[Any]:
    """A session whose tasks may fail three times; its Python workers find this repository."""
    from seorep_async.integrations.spark import SeoRepDataSource

    (folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
    }
    before = dict(os.environ)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPO), "SPARK_LOCAL_IP": "127.0.0.1"}
    # the JVM takes the environment as it starts, and the workers take it from there
    os.environ |= {"SEOREP_API_KEY": KEY, "SEOREP_TEST_PROCESSES": str(folder)}
    session = pyspark_sql.SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()

    class Noting(SeoRepDataSource):
        def read(self, partition: Any) -> Any:
            """Find the key before it is needed, as the guide says."""
            os.environ["SEOREP_API_KEY"] = note_process()
            return super().read(partition)

    session.dataSource.register(Noting)
    yield session
    session.stop()
    os.environ.clear()
    os.environ |= before


def options_of(sandbox: Any, folder: Path, **changes: Any) -> dict[str, Any]:
    window = {"start_date": START, "end_date": END, "base_url": sandbox.base_url}
    where = {"out": f"{folder}/shared/", "work_dir": f"{folder}/work"}
    return {
        "feeds": ",".join(feed.value for feed in Feed),
        "shards": 2,
        "workers": 2,
        **window,
        **where,
        **WHOSE,
        **changes,
    }


def frame(spark: Any, options: dict[str, Any], **changes: Any) -> Any:
    return spark.read.format("seorep").options(**options, **changes).load()


def test_spark_brings_what_one_process_brings(
    spark: Any, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from seorep_async.integrations.spark import SeoRepDataSource

    with served(folder, **MIXED, **FAULTY) as sandbox:
        options = options_of(sandbox, tmp_path)
        names = [table.name for table in all_tables() if table.name not in ("campaigns", "pulls")]
        found = {name: frame(spark, options, table=name).toArrow() for name in names}
        summary = gather(SeoRepDataSource(options).shards())
        assert_same(alone(sandbox, tmp_path), found)
    assert {failure.campaign_id for failure in summary.failures} == {3, 6}
    frame(spark, options).explain(extended=True)

    ui = spark.sparkContext.uiWebUrl
    application = f"{ui}/api/v1/applications/{spark.sparkContext.applicationId}"
    pages = [f"{ui}/{page}/" for page in ("jobs", "stages", "environment", "executors", "SQL")]
    pages += [f"{application}/{page}" for page in ("environment", "sql?details=true", "stages", "jobs")]
    for page in pages:
        CANARY.assert_not_in(urllib.request.urlopen(page).read().decode())  # noqa: S310
    CANARY.assert_not_in("".join(capfd.readouterr()))
    assert assert_key_in_no_file(tmp_path) > 20
    assert assert_key_in_no_file(folder) > 0


def test_columns_have_types_nullability_and_meanings(spark: Any, folder: Path, tmp_path: Path) -> None:
    with served(folder, campaigns=1, keywords=1) as sandbox:
        schema = frame(spark, options_of(sandbox, tmp_path)).schema
        assert sandbox.stats.requests == 0
    table = table_of(Feed.CAMPAIGN)
    assert {field.name: field.metadata["comment"] for field in schema} == {
        column.name: column.description for column in table.columns
    }
    assert {field.name for field in schema if not field.nullable} >= set(table.key)
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    assert kinds["tags"] == "array<struct<id:bigint,label:string,extra:string>>"
    assert (kinds["snapshot_date"], kinds["engine_a_ranking"], kinds["extra"]) == ("date", "bigint", "string")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"api_key": KEY}, "a key can't be an option, as Spark shows options; say where it is: key_from=env:NAME"),
        ({"nonsense": "1"}, "there is no option nonsense; the options are start_date, "),
        ({"table": "campaigns"}, "the option table must be one of keyword_rankings, "),
        ({"shards": "many"}, "the option shards can't be many"),
        ({"feeds": "rankings"}, "the option feeds can't be rankings"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    spark: Any, folder: Path, tmp_path: Path, wrong: dict[str, str], message: str
) -> None:
    with served(folder, campaigns=1, keywords=1) as sandbox:
        with pytest.raises(Exception, match=message) as caught:
            frame(spark, options_of(sandbox, tmp_path) | wrong)
        assert sandbox.stats.requests == 0
    CANARY.assert_not_in(str(caught.value))


@pytest.mark.parametrize("seed", range(int(os.environ.get("TEST_KILLS", "1"))))
def test_a_killed_python_worker_loses_and_doubles_nothing(spark: Any, folder: Path, tmp_path: Path, seed: int) -> None:
    with served(folder, campaigns=4, keywords=20, latency=0.02) as sandbox:
        settings = '{"max_concurrency": 8}'
        options = options_of(sandbox, tmp_path, feeds="campaign,keyword-by-date", settings=settings)
        rows = frame(spark, options, table="keyword_periods")
        with killing(sandbox, folder, [Random(seed).randrange(10, 75)]) as killed:
            ids = [row.keyword_id for row in rows.select("keyword_id").collect()]
        assert (len(ids), set(map(ids.count, ids)), len(killed)) == (4 * 20 * 3, {3}, 1)
        ideal = 1 + 4 + 4 * 20  # with the list of campaigns
        in_progress = 2 * 4 + 1  # a worker has half of the 8 permits; reports fetched, or waiting to be stored
        assert sandbox.stats.requests <= ideal + in_progress
        requests = sandbox.stats.requests
        assert rows.count() == len(ids)
        assert sandbox.stats.requests == requests


def test_the_guide_runs(
    spark: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", guide or "", re.DOTALL)
    with served(folder, campaigns=2, keywords=1) as sandbox:
        code = code.replace("/shared/", f"{tmp_path}/").replace(
            ".options(start", f".option('base_url', '{sandbox.base_url}').options(start"
        )
        exec(code, {"spark": spark})  # noqa: S102
    assert "Row(campaign_id=" in capsys.readouterr().out
