"""Ids and numbers that can't be asked for or kept fail their own report, and no other."""

import bisect
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pytest

from seorep_async import DecodeError, Feed, SeoRepClient
from seorep_async.export import ExportError, PullSummary
from seorep_async.models import RankingTotals, Tag
from seorep_async.reports import RankingReport
from seorep_async.tables.columns import as_json
from tests.export.door import (
    Format,
    ProgressTracker,
    PullFailure,
    PullSpec,
    StagedReport,
    encode_totals,
    encoded,
    preview,
    stream_rows,
    translate_errors,
)
from tests.export.made_service import TOO_LARGE, made
from tests.export.reports import END, FORMATS, START, owned, pull_into, ranking, refuse_to_encode, spec_of

KEYWORDS = Feed.KEYWORD_BY_DATE
ODD = [0, 2**31, TOO_LARGE]
ROWS = {"rows": True, "keywords": False}


def failed(summary: PullSummary) -> list[tuple[int, int | None]]:
    return [(failure.campaign_id, failure.keyword_id) for failure in summary.failures]


async def piped(client: SeoRepClient, feed: Feed, kind: Format = Format.CSV) -> tuple[PullSummary, bytes]:
    """Pull to a pipe, and return what came there."""
    text = bytearray()

    async def write(data: bytes) -> None:
        text.extend(data)

    spec = PullSpec.of(client, None, START, END, feed, {})
    return await stream_rows(client, spec, kind, write, ProgressTracker()), bytes(text)


@pytest.mark.parametrize("ending", [*FORMATS, "pipe"])
@pytest.mark.parametrize("odd", ODD)
async def test_a_keyword_that_can_not_be_asked_for_fails_alone(tmp_path: Path, odd: int, ending: str) -> None:
    async with made({1: [10, odd], 2: [11]}) as (_, client):
        if ending == "pipe":
            summary, text = await piped(client, KEYWORDS)
            assert text.count(b"\n") == 3
        else:
            summary = await pull_into(client, tmp_path / f"a.{ending}", feeds=KEYWORDS)
    assert (failed(summary), summary.rows) == ([(1, odd)], 2)
    assert isinstance(summary.failures[0].error, DecodeError)
    assert "keyword_id must be an integer from 1 to 2147483647" in summary.failures[0].error.message


@pytest.mark.parametrize("odd", ODD)
async def test_it_is_reported_again_when_the_pull_goes_on(tmp_path: Path, odd: int) -> None:
    async with made({1: [10, odd]}) as (service, client):
        for again in (False, True):
            service.asked.clear()
            summary = await pull_into(client, tmp_path / "a.csv", [1], feeds=KEYWORDS, retry_failed=again)
            assert failed(summary) == [(1, odd)]
    assert service.asked == []


@pytest.mark.parametrize("ending", ["csv", "duckdb"])
@pytest.mark.parametrize("odd", ODD)
async def test_a_campaign_that_can_not_be_asked_for_fails_alone(tmp_path: Path, odd: int, ending: str) -> None:
    async with made({odd: [], 2: [11]}) as (_, client):
        for _ in range(2):
            summary = await pull_into(client, tmp_path / f"a.{ending}")
    assert (failed(summary), summary.rows) == ([(odd, None)], 1)


async def test_failures_of_such_ids_do_not_add_up_in_a_database(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with made({TOO_LARGE: [], 2: [11]}) as (_, client):
        for _ in range(2):
            await pull_into(client, path)
    with duckdb.connect(str(path), read_only=True) as database:
        assert database.execute("SELECT campaign_id, error FROM failures").fetchall() == [(None, "DecodeError")]


async def test_rows_of_other_keywords_are_not_doubled_in_a_database(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with made({1: [10, TOO_LARGE]}) as (_, client):
        for _ in range(2):
            await pull_into(client, path, feeds=KEYWORDS)
    with duckdb.connect(str(path), read_only=True) as database:
        assert database.execute("SELECT keyword_id FROM keyword_periods").fetchall() == [(10,)]


async def test_a_preview_is_estimated_from_the_first_valid_campaign() -> None:
    async with made({TOO_LARGE: [], 2: [11]}) as (_, client):
        found = await preview(client, PullSpec.of(client, None, START, END, Feed.CAMPAIGN, {}), None)
    assert found.campaigns == 2


@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
@pytest.mark.parametrize(
    ("feed", "large"),
    [(Feed.CAMPAIGN, {"competitors": {10: TOO_LARGE}}), (Feed.CAMPAIGN_BY_DATE, {"totals": {1: 10**400, 2: 5}})],
    ids=["row", "total"],
)
async def test_more_than_64_bits_fail_their_report_only(
    tmp_path: Path, feed: Feed, large: dict[str, Any], ending: str
) -> None:
    async with made({1: [10], 2: [11]}, **large) as (_, client):
        summary = await pull_into(client, tmp_path / f"a.{ending}", feeds=feed)
    assert (failed(summary), summary.rows) == ([(1, None)], 1)
    assert summary.failures[0].error.message == (
        f"an integer has more than 64 bits, which .{ending} can't hold; .csv and .jsonl can"
    )


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
async def test_text_holds_a_total_of_any_size(tmp_path: Path, ending: str) -> None:
    async with made({1: []}, totals={1: 10**400}) as (_, client):
        await pull_into(client, tmp_path / f"a.{ending}", feeds=Feed.CAMPAIGN_BY_DATE)
    assert str(10**400) in (tmp_path / f"a.totals.{ending}").read_text()


@pytest.mark.parametrize("error", [ValueError("not Unicode"), RecursionError("maximum recursion depth exceeded")])
async def test_what_no_string_holds_fails_alone_on_the_way_to_a_pipe(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    refuse_to_encode(monkeypatch, 1, error)
    async with made({1: [10], 2: [11]}) as (_, client):
        summary, _ = await piped(client, Feed.CAMPAIGN, Format.JSON_LINES)
    assert failed(summary) == [(1, None)]


async def test_what_one_owner_can_not_have_the_others_get(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_encode(monkeypatch, 1, ValueError("not Unicode"))
    async with made({1: [10], 2: [10], 3: [10]}) as (_, client):
        summary, text = await piped(client, KEYWORDS)
    assert failed(summary) == [(1, 10)]
    assert [line.split(b",")[2:4] for line in text.splitlines()[1:]] == [[b"2", b"10"], [b"3", b"10"]]


def nested(depth: int) -> dict[str, Any]:
    """Return unknown fields, one of them nested so deep."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return {"zz": value}


def just_possible() -> int:
    """Return how deep lists may be nested to be written as JSON by whoever calls this."""
    return bisect.bisect(range(1, DEEPEST), False, key=is_too_deep)


def is_too_deep(depth: int) -> bool:
    try:
        as_json(nested(depth))
    except RecursionError:
        return True
    return False


DEEPEST = 200_000  # Python 3.12 and later take some thousands
TOO_DEEP = nested(DEEPEST)


def test_reports_that_are_converted_together_fail_alone() -> None:
    large = [owned(*(ranking(keyword_id=id_, wmt_ctr=wmt) for id_ in range(200))).report for wmt in (1, TOO_LARGE, 2)]
    first, failure, third = encoded(Format.PARQUET, spec_of(), [*zip(large, (7, 8, 9), strict=True)], **ROWS)
    assert isinstance(failure, PullFailure)
    stored = [one.campaign_id for one in (first, third) if isinstance(one, StagedReport)]
    assert (stored, failure.campaign_id) == ([7, 9], 8)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(
    "report",
    [
        pytest.param(owned(ranking(extra=TOO_DEEP)).report, id="row"),
        pytest.param(owned(ranking(tags=(Tag(1, "x", extra=TOO_DEEP),))).report, id="tag"),
        pytest.param(attrs.evolve(owned(ranking()).report, totals=RankingTotals(extra=TOO_DEEP)), id="totals"),
    ],
)
def test_a_field_that_is_nested_too_deep_fails_its_report_only(report: RankingReport[Any], ending: str) -> None:
    (failure,) = encoded(Format(f".{ending}"), spec_of(), [(report, 7)], **ROWS)
    assert isinstance(failure, PullFailure)
    assert failure.campaign_id == 7
    assert failure.error.message == f"an unknown field is nested too deep to be written to .{ending}"


def test_a_total_too_deep_for_the_writer_is_refused_early() -> None:
    report = attrs.evolve(owned(ranking()).report, totals=RankingTotals(extra=nested(just_possible() - 20)))
    with pytest.raises(RecursionError):
        encode_totals(Format.CSV, report)


@pytest.mark.parametrize(
    ("raised", "said"),
    [(OverflowError("int too big to convert"), "int too big"), (RecursionError("maximum depth"), "maximum depth")],
)
def test_whatever_else_can_not_be_held_is_an_export_error(raised: Exception, said: str) -> None:
    whole = pytest.raises(ExportError, match=rf"can't write a\.parquet: {said}")
    with whole, translate_errors(Path("a.parquet")):
        raise raised
