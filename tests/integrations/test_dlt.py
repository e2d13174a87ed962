"""`dlt_source` into DuckDB, a folder of Delta tables and a Postgres of this machine."""

import asyncio
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from seorep_async import (
    AuthenticationError,
    Campaign,
    ConfigurationError,
    Feed,
    SeoRepClient,
    Settings,
)
from seorep_async.guides import pages
from seorep_async.integrations.dlt import dlt_source
from seorep_async.integrations.engines import pull_table
from seorep_async.tables.output_tables import table_of
from tests.integrations.service import (
    CANARY,
    WINDOW,
    assert_key_in_no_file,
    names_of_the_guide,
    served,
)

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

dlt = pytest.importorskip("dlt")

IDS = range(1, 9)
LATER = {**WINDOW, "snapshot_date": "2023-04-02"}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.setenv("LOAD__RAISE_ON_MAX_RETRIES", "1")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The installed Postgres in a temporary folder. It refuses to run as root."""
    initdb = shutil.which("initdb")
    for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"):
        initdb = initdb or str(path)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed")
    programs = Path(initdb).resolve().parent
    folder = Path(f"/tmp/seorep-postgres-{os.getpid()}")  # noqa: S108
    other = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.getuid() == 0 else []

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [*other, programs / program, "-D", folder / "data", *arguments],
            check=True,
            capture_output=True,
        )

    folder.mkdir()
    shutil.chown(folder, "nobody" if other else os.getuid())
    try:
        run("initdb", "-A", "trust", "-U", "seo")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        listen = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", listen, "start")
        try:
            yield f"postgresql://seo:any@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Loaded:
    """A pipeline into a destination, and the rows in it."""

    def __init__(self, kind: str, folder: Path, postgres: str) -> None:
        self.kind = kind
        self.folder = folder
        places = {
            "duckdb": lambda: dlt.destinations.duckdb(str(folder / "seo.duckdb")),
            "postgres": lambda: dlt.destinations.postgres(postgres),
            "delta": lambda: dlt.destinations.filesystem(str(folder / "files")),
        }
        how = {"dataset_name": f"rankings_{os.getpid()}", "pipelines_dir": str(folder / "state")}
        self.pipeline = dlt.pipeline(f"seo_{kind}", destination=places[kind](), **how)

    def load(self, *feeds: Feed, **options: Any) -> None:
        usual: dict[str, Any] = {**WINDOW, "size": 3, "feeds": feeds or [Feed.CAMPAIGN]}
        source = dlt_source(IDS, **usual | options)
        table_format = "delta" if self.kind == "delta" else None
        self.pipeline.run(source, table_format=table_format)

    def rows(self, table: str) -> list[dict[str, Any]]:
        if self.kind == "delta":
            deltalake = pytest.importorskip("deltalake")
            name = f"{self.folder}/files/{self.pipeline.dataset_name}/{table}"
            rows = deltalake.DeltaTable(name).to_pyarrow_table().to_pylist()
        else:
            with (
                self.pipeline.sql_client() as client,
                client.execute_query(f"SELECT * FROM {table}") as cursor,  # noqa: S608
            ):
                names = [column[0] for column in cursor.description]
                rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return [
            {name: value for name, value in row.items() if not name.startswith("_dlt")}
            for row in rows
        ]


@pytest.fixture(params=["duckdb", "delta", "postgres"])
def loaded(request: pytest.FixtureRequest, tmp_path: Path) -> Loaded:
    if request.param == "delta":
        pytest.importorskip("deltalake")
    return Loaded(
        request.param,
        tmp_path,
        request.getfixturevalue("postgres") if request.param == "postgres" else "",
    )


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row | {"tags": None}, default=str, sort_keys=True) for row in rows)


def test_nights_merge_and_failures_are_named(loaded: Loaded, tmp_path: Path) -> None:
    with served(forbidden=[3]) as sandbox:
        for window in (WINDOW, WINDOW, LATER):
            loaded.load(*Feed, **window)
        sandbox.forbidden = frozenset()
        ids = [id_ for id_ in IDS if id_ != 3]
        nights = pull_table(ids, **WINDOW).to_pylist() + pull_table(ids, **LATER).to_pylist()
        periods = {
            feed: pull_table(ids, **LATER, feed=feed).to_pylist()
            for feed in (Feed.CAMPAIGN_BY_DATE, Feed.KEYWORD_BY_DATE)
        }
    rankings = loaded.rows("keyword_rankings")
    assert comparable(rankings) == comparable(nights)
    for feed, expected in periods.items():
        assert comparable(loaded.rows(table_of(feed).name)) == comparable(expected), feed
    names_in_tags: set[tuple[str, ...]] = set()
    for row in rankings:
        tags = row["tags"]
        if isinstance(tags, str):
            tags = json.loads(tags)
        names_in_tags.update(tuple(sorted(tag)) for tag in tags)
    assert names_in_tags == {("extra", "id", "label")}
    failures = loaded.rows("failures")
    facts = {
        (row["campaign_id"], row["keyword_id"], row["error"], row["status"]) for row in failures
    }
    assert facts == {(3, None, "AuthenticationError", 403)}
    assert len(failures) == 2 * len(Feed)
    assert_key_in_no_file(tmp_path)


def test_columns_have_descriptions_and_nested_ones_are_json(loaded: Loaded) -> None:
    with served(campaigns=1):
        loaded.load(*Feed)
    tables = loaded.pipeline.default_schema.data_tables()
    names = {table.name for table in map(table_of, Feed)} | {"failures"}
    assert {table["name"] for table in tables} == names
    assert all(table["description"] for table in tables)
    columns = [column for table in tables for column in table["columns"].values()]
    ours = [column for column in columns if not column["name"].startswith("_dlt")]
    assert [column["name"] for column in ours if not column.get("description")] == []
    of_json = {column["name"] for column in ours if column["data_type"] == "json"}
    assert of_json == {"tags", "extra", "search_location_extra", "search_language_extra"}


def test_the_guide_lists_the_key_of_each_table() -> None:
    row = re.compile(r"^\| `?[\w-]+`? \| `(\w+)` \| `(.+)` \|$", re.MULTILINE)
    expected = {table_of(feed).name: ", ".join(table_of(feed).key) for feed in Feed}
    assert dict(row.findall(pages()["engines"])) == {**expected, "failures": "row_id"}


@pytest.mark.parametrize("kind", ["duckdb", "delta"])
def test_a_plain_run_warns_of_nothing(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Loaded(kind, tmp_path, "")
    monkeypatch.setattr(logging.getLogger("dlt"), "propagate", True)
    with served(), warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.load(*Feed)
    assert [record.getMessage() for record in caplog.records] == []


def test_failed_reports_are_one_warning_for_each_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    feeds = [Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE]
    with served(forbidden=[1, 2]):
        Loaded("duckdb", tmp_path, "").load(*feeds)
    parts = [f"acme: {feed.value}, 2023-01-01 to 2023-03-31: 2 reports failed" for feed in feeds]
    assert sorted(message.partition(", such")[0] for message in caplog.messages) == parts


def test_a_run_without_any_report_fails(tmp_path: Path) -> None:
    loaded = Loaded("duckdb", tmp_path, "")
    with served(forbidden=IDS):
        os.environ["SEOREP_BASE_URL"] = "http://127.0.0.1:9"
        with pytest.raises(Exception, match="keyword_rankings has no rows, because 8") as caught:
            loaded.load(settings=Settings(max_attempts=1))
    assert "ConnectionFailedError: campaign 1: the connection" in str(caught.value)


NO_REPORT_HAS_ROWS: dict[tuple[str, int], list[Any]] = {("campaign", id_): [] for id_ in IDS}


@pytest.mark.parametrize("failing", [{3: 500}, dict.fromkeys(IDS, 404)], ids=str)
def test_empty_campaigns_hide_no_outage(failing: dict[int, int], tmp_path: Path) -> None:
    with (
        served(reports=NO_REPORT_HAS_ROWS, failing=failing),
        pytest.raises(Exception, match="keyword_periods has no rows, because"),
    ):
        Loaded("duckdb", tmp_path, "").load(Feed.KEYWORD_BY_DATE, settings=Settings(max_attempts=1))


def test_a_campaign_that_fails_later_keeps_its_rows(tmp_path: Path) -> None:
    loaded = Loaded("duckdb", tmp_path, "")
    with served() as sandbox:
        loaded.load(Feed.CAMPAIGN_BY_DATE)
        before = loaded.rows("campaign_periods")
        sandbox.forbidden = frozenset([3])
        loaded.load(Feed.CAMPAIGN_BY_DATE, **LATER)
    after = loaded.rows("campaign_periods")
    assert len(after) == len(before)
    nights = {row["campaign_id"]: row["snapshot_date"].day for row in after}
    assert nights == dict.fromkeys(IDS, 2) | {3: 1}


def test_the_guides_run_names_its_failures_after_a_failed_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lines,) = re.findall(
        r"^(def run\(ids, .*?\n)\n\nerrors = run\(", pages()["engines"], re.DOTALL | re.MULTILINE
    )
    loaded = Loaded("duckdb", tmp_path, "")
    names = names_of_the_guide() | {
        "pipeline": loaded.pipeline,
        "PipelineStepFailed": pytest.importorskip("dlt.pipeline.exceptions").PipelineStepFailed,
        "dlt_source": dlt_source,
    }
    exec(lines, names)  # noqa: S102

    def rename_column(old_name: str, new_name: str) -> None:
        with loaded.pipeline.sql_client() as client:
            client.execute_sql(f"ALTER TABLE keyword_rankings RENAME {old_name} TO {new_name}")

    with served(campaigns=2) as sandbox:
        assert names["run"]([1, 2], **WINDOW) == []
        rename_column("engine_a_ranking", "broken")
        with pytest.raises(Exception, match="engine_a_ranking"):
            names["run"]([1, 2], **LATER)
        rename_column("broken", "engine_a_ranking")
        assert names["run"]([1, 2], **{**WINDOW, "snapshot_date": "2023-04-03"}) == []
        # Failures are named although older rows of the night remain.
        sandbox.forbidden = frozenset([2])
        assert names["run"]([1, 2], **WINDOW) == ["AuthenticationError"]
        sandbox.forbidden = frozenset()
        assert names["run"]([1, 2], **WINDOW) == []
    assert {row["snapshot_date"].day for row in loaded.rows("keyword_rankings")} == {1, 2, 3}
    with pytest.raises(SystemExit, match=r"^2$"):
        names["run"]([1, 2], **WINDOW, api_key_env="NOT_SET")
    assert capsys.readouterr().err.startswith("ConfigurationError: ")


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([], 0),
        (["AuthenticationError", "NotFoundError"], 9),
        (["NotFoundError", "ServerError"], 4),
    ],
    ids=str,
)
def test_the_guides_scripts_have_the_exit_codes_of_the_command(
    errors: list[str], code: int
) -> None:
    assert names_of_the_guide()["exit_code"](errors) == code


def test_the_guides_blocks_run_in_postgres(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = pages()["engines"].partition("\n## dlt")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python engines\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    code = "\n".join(block for block in blocks if "filesystem" not in block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", postgres)
    with served(failing={3: 404}):
        names = names_of_the_guide() | {
            "ids": IDS,
            "campaigns": asyncio.run(campaigns()),
            "window": {name: value for name, value in WINDOW.items() if name != "account"},
        }
        exec(code.replace("destination=file", 'destination="postgres"'), names)  # noqa: S102
        with names["pipeline"].sql_client() as client:
            comments = client.execute_sql("""
                SELECT col_description(attrelid, attnum)
                FROM pg_attribute
                WHERE attname = 'engine_a_ranking' AND attrelid = 'keyword_rankings'::regclass
            """)
            # a later night merges although the key is a primary one
            (alter,) = re.findall(r"`(ALTER TABLE keyword_periods ADD PRIMARY KEY [^`]*)`", section)
            client.execute_sql(alter)
        names["run"](IDS, **LATER, feeds=[Feed.KEYWORD_BY_DATE])
    assert "rank" in str(comments)
    assert names["errors"] == ["NotFoundError"] * 2
    assert names["code"] == 9


async def campaigns() -> Sequence[Campaign]:
    async with SeoRepClient() as client:
        return await client.campaigns.list()


def test_a_filesystem_without_a_table_format_is_refused(tmp_path: Path) -> None:
    pipeline = dlt.pipeline(
        "plain", destination=dlt.destinations.filesystem(str(tmp_path)), pipelines_dir=str(tmp_path)
    )
    with served() as sandbox:
        with pytest.raises(Exception, match="a filesystem needs a table format"):
            pipeline.run(dlt_source(IDS, **WINDOW))
        assert sandbox.stats.requests == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": ["1"]},
        {"feeds": ["weekly"]},
        {"feeds": []},
        {"snapshot_date": None},
        {"size": 0},
        {"api_key_env": "NOT_SET"},
        {"on_error": "raise"},
    ],
    ids=str,
)
def test_bad_input_is_refused_before_a_pipeline_runs(wrong: dict[str, Any]) -> None:
    with served() as sandbox:
        with pytest.raises(ConfigurationError):
            dlt_source(**{"ids": IDS, **WINDOW, **wrong})
        assert sandbox.stats.requests == 0


def test_a_misspelt_argument_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigurationError, match=r"Did you mean feeds\? The arguments are ids, "):
        dlt_source(IDS, **WINDOW, feed=Feed.CAMPAIGN)  # type: ignore[call-arg]


def test_a_wrong_key_fails_the_run_without_showing_it(tmp_path: Path) -> None:
    loaded = Loaded("duckdb", tmp_path, "")
    with served() as sandbox:
        os.environ["SEOREP_API_KEY"] = "canary-of-a-wrong-key"
        with pytest.raises(Exception, match="has no permission for this, or was refused") as caught:
            loaded.load()
    # A traceback shows our error first, then those of dlt.
    error_of_resource = caught.value.__cause__
    assert error_of_resource is not None
    refusal = error_of_resource.__cause__
    assert isinstance(refusal, AuthenticationError)
    assert refusal.__context__ is None
    assert sandbox.stats.requests <= 8
    CANARY.assert_not_in(str(caught.value))
