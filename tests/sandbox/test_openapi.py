"""The description at /openapi.json, and whether the sandbox keeps to it."""

import asyncio
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from tests.sandbox.calls import RIGHT_KEY, calling

REPO = Path(__file__).parents[2]
METHODS = {
    "/v3/campaigns": "get post",
    "/v3/campaigns/{id}": "get put delete",
    "/v3/users": "get post",
    "/v3/users/{id}": "get put delete",
    "/v3/users/{id}/loginGrant": "get",
    "/v3/keywords": "get",
    "/v3/keywords/{id}": "get",
    "/v3/backlinks": "post",
    "/v3/backlinks/{id}": "get put delete",
    "/v3/resources/backlinks/manager/links": "get",
    "/v3/resources/rankings/campaign": "get",
    "/v3/resources/rankings/campaign/date": "get",
    "/v3/resources/rankings/keyword/date": "get",
}
BODIES = {
    ("/v3/campaigns", "post"): "url! company! scope group_title",
    ("/v3/campaigns/{id}", "put"): "url company scope group_title",
    ("/v3/users", "post"): "first_name! last_name! username! password! email role! email_credentials",
    ("/v3/users/{id}", "put"): "first_name last_name username email password role",
    ("/v3/backlinks", "post"): (
        "campaign_id! title! url! status! date_published! link_type target_anchor target_url notes"
    ),
    ("/v3/backlinks/{id}", "put"): "date_published status url link_type notes title target_anchor target_url",
}
FEED = "start_date! end_date! filter search page limit sort_metric sort_direction compare_previous_period"
LIST = "filter page limit order_by order_direction"
QUERIES = {
    "/v3/campaigns": LIST,
    "/v3/users": f"{LIST} role role[]",
    "/v3/keywords": f"{LIST} campaign_id",
    "/v3/resources/backlinks/manager/links": (
        "campaign_id! status page limit sort_metric sort_direction date_string search link_type"
    ),
    "/v3/resources/rankings/campaign": f"campaign_id! {FEED}",
    "/v3/resources/rankings/campaign/date": f"campaign_id! {FEED}",
    "/v3/resources/rankings/keyword/date": f"keyword_id! {FEED}",
}


async def description() -> dict[str, Any]:
    async with calling() as call:
        reply = await call.send("/openapi.json", authorization="")
        assert (reply.status, reply.headers["Content-Type"].split(";")[0]) == (200, "application/json")
        described: dict[str, Any] = reply.json()
        return described


async def test_it_needs_no_key_and_describes_all_21_operations() -> None:
    described = await description()
    assert described["openapi"].startswith("3.1.")
    assert {path: set(methods) for path, methods in described["paths"].items()} == {
        path: set(methods.split()) for path, methods in METHODS.items()
    }
    assert sum(map(len, described["paths"].values())) == 21


@pytest.mark.parametrize(("path", "method"), BODIES)
async def test_writes_take_the_reference_s_fields_as_form_and_json(path: str, method: str) -> None:
    content = (await description())["paths"][path][method]["requestBody"]["content"]
    assert set(content) == {"application/x-www-form-urlencoded", "application/json"}
    for body in content.values():
        required = body["schema"].get("required", [])
        names = {name + "!" * (name in required) for name in body["schema"]["properties"]}
        assert names == set(BODIES[path, method].split())


@pytest.mark.parametrize("path", QUERIES)
async def test_lists_and_feeds_take_the_reference_s_parameters(path: str) -> None:
    parameters = (await description())["paths"][path]["get"]["parameters"]
    assert {one["name"] + "!" * one["required"] for one in parameters} == set(QUERIES[path].split())


async def test_every_operation_has_a_summary_and_an_id_of_its_own() -> None:
    operations = [one for methods in (await description())["paths"].values() for one in methods.values()]
    assert len({one["operationId"] for one in operations}) == 21
    assert all(re.fullmatch(r"[A-Z].+\.", one["summary"]) for one in operations)


async def test_it_is_the_same_every_time() -> None:
    assert await description() == await description()


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("openapi_spec_validator"), reason="needs openapi-spec-validator")
async def test_it_is_valid() -> None:
    from openapi_spec_validator import validate

    validate(await description())


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("schemathesis"), reason="needs schemathesis")
@pytest.mark.parametrize(
    "selection",
    [
        # A backlink goes with its campaign, which OpenAPI can't say: so deletion of campaigns is tried on its own.
        ["--exclude-operation-id", "campaigns.delete"],
        ["--include-tag", "campaigns"],
    ],
    ids=["all but the deletion of campaigns", "campaigns"],
)
@pytest.mark.parametrize(
    "options",
    [{"shape": "nested", "rows": "current"}, {"shape": "flat", "rows": "older"}, {"shape": "mixed", "rows": "mixed"}],
    ids=["nested", "flat", "mixed"],
)
async def test_schemathesis_finds_no_500_and_nothing_undescribed(
    options: dict[str, Any], selection: list[str], tmp_path: Path
) -> None:
    async with Sandbox(campaigns=300, keywords=20, users=50, **options) as sandbox:
        schemathesis = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{sandbox.base_url}/openapi.json"),
            *("--header", f"Authorization: {RIGHT_KEY}", "--checks", "all"),
            # This check wants a 401 where the reference has a 403.
            *("--exclude-checks", "missing_required_header"),
            *("--max-examples", "50", "--seed", "1", "--continue-on-failure", "--no-color", *selection),
            cwd=tmp_path,  # it leaves a directory behind
            env={"PYTHONPATH": str(REPO), "SCHEMATHESIS_HOOKS": "tests.sandbox.sensible_dates", "PYTHONUTF8": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await asyncio.wait_for(schemathesis.communicate(), timeout=60)
        assert schemathesis.returncode == 0, said.decode()
        assert sandbox.stats.requests > 500
        assert 500 not in sandbox.stats.per_status
