"""`seorep shards`: a pull in shards for an orchestrator, with JSON in and out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from seorep_async.cli.choosing import choosing_options, chosen_campaigns, chosen_days, feed_option, key_renewed_option
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import OrderedGroup, SectionedCommand, connection_options, day, whole_number
from seorep_async.models import Feed

if TYPE_CHECKING:
    from seorep_async.shards import Shard

_EXAMPLES = """\
\b
Examples:
  seorep shards plan -o s3://bucket/rankings/ --workers 4 > shards.jsonl
  seorep shards run shards.jsonl --number 7  # anywhere, as often as needed
  seorep shards gather shards.jsonl          # readers see the rows"""


@click.group(cls=OrderedGroup, epilog=_EXAMPLES)
def shards() -> None:
    """Pull in shards that an orchestrator runs on many machines.

    A shard that has succeeded sends nothing when it is run again. Shards hold no key; they say where a worker finds it.
    """


@shards.command(cls=SectionedCommand, params=[*choosing_options, *connection_options()])
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="FOLDER/",
    help="Dataset: a folder, or s3://…/, gs://…/, az://…/; credentials come from the environment.",
)
@feed_option
@click.option(
    "--shards", "count", type=whole_number, default="32", show_default=True, metavar="N", help="Number of shards."
)
@click.option(
    "--workers", type=whole_number, default="1", show_default=True, metavar="N", help="Shards that run at once."
)
@click.option(
    "--key-from",
    default="env:SEOREP_API_KEY",
    show_default=True,
    metavar="env:NAME",
    help="Environment variable in which workers find the key.",
)
@click.option(
    "--work-dir",
    metavar="FOLDER",
    help="A worker's folder for unfinished shards.  [default: seorep-UID in its temporary folder]",
)
@click.option("--account", metavar="NAME", help="Name of the account.  [default: the profile's, or the host]")
@click.option("--snapshot-date", type=day, metavar="DATE", help="Snapshot date in every row.  [default: today, in UTC]")
@key_renewed_option
@click.option("--restart", is_flag=True, help="Make a new plan instead of resuming an unfinished one.")
@click.option(
    "--retry-failed",
    is_flag=True,
    help="Print the plan of a gathered pull again, so that its failed reports can be fetched.",
)
@click.pass_obj
def plan(now: dt.datetime, /, feeds: tuple[str, ...], count: int, **options: Any) -> ExitCode:
    """Cut a pull into shards, and print each as a line of JSON."""
    days, campaigns = chosen_days(options, now), chosen_campaigns(options)
    if len(days.windows) > 1:
        raise click.UsageError("a plan of shards is of one range of days; make a plan for each month.")
    from seorep_async.cli.connection import connect
    from seorep_async.cli.signals import run_until_interrupted
    from seorep_async.cli.terminal import write_stdout
    from seorep_async.export.spec import CampaignChoice
    from seorep_async.export.storage import is_address
    from seorep_async.shards import plan as plan_shards

    connection = connect(options, otherwise="name the service")
    names = "out account workers key_from work_dir snapshot_date key_renewed restart retry_failed"
    own = {name: options[name] for name in names.split()}
    own["account"] = connection.account if own["account"] is None else own["account"]
    own["storage_options"] = connection.storage_options if is_address(own["out"]) else None

    async def planned() -> list[Shard]:
        async with connection.opened() as client:
            ids: Iterable[int] | None = campaigns.ids or None
            choice = CampaignChoice(campaigns.groups, campaigns.filter, campaigns.none_found)
            if campaigns.groups or campaigns.filter:
                ids = [campaign.id async for campaign in choice.campaigns(client)]
            elif ids is None and not (await client.campaigns.list().page(1)).items:
                choice.report_none()  # before an empty plan is stored, and resumed later
            wanted = [Feed(feed) for feed in feeds]
            return await plan_shards(client, ids, days.first, days.last, feeds=wanted, shards=count, **own)

    found = run_until_interrupted(planned())
    write_stdout("".join(f"{shard.to_json()}\n" for shard in found))
    return ExitCode.OK


@shards.command(cls=SectionedCommand)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--number", type=click.IntRange(0), metavar="N", help="Run only this shard; the first is 0.")
def run(file: Any, number: int | None) -> ExitCode:
    """Run shards, and print their receipts.

    They are read from a file or stdin. Each receipt is a line of JSON. A shard that has run already sends nothing,
    unless some of its reports failed: it fetches those.
    """
    from seorep_async.cli.progress import shown_warnings
    from seorep_async.cli.signals import run_until_interrupted
    from seorep_async.cli.terminal import write_stdout
    from seorep_async.shards.running import client_of, found_limits, run_in_loop

    code = ExitCode.OK
    with shown_warnings():
        for shard in _shards(file.read(), number):
            with found_limits(shard) as limits:
                receipt = run_until_interrupted(run_in_loop(shard, client_of(shard, limits)))
            write_stdout(f"{receipt.to_json()}\n")
            code = code if receipt.ok else ExitCode.PARTIAL
    return code


@shards.command(cls=SectionedCommand)
@click.argument("file", type=click.File("rb"), default="-")
def gather(file: Any) -> ExitCode:
    """Commit a pull once every shard has run.

    Readers see its rows from then on. The summary is printed as JSON.
    """
    from seorep_async.cli.progress import shown_warnings
    from seorep_async.cli.summary import summary_facts
    from seorep_async.cli.terminal import as_json, write_stdout
    from seorep_async.shards import gather as gather_shards

    with shown_warnings() as warnings:
        summary = gather_shards(_shards(file.read(), None))
    code = ExitCode.OK if summary.ok else ExitCode.PARTIAL
    write_stdout(f"{as_json(summary_facts(summary, code, warnings))}\n")
    return code


def _shards(data: bytes, number: int | None) -> list[Shard]:
    from seorep_async.shards import Shard

    found = [Shard.from_json(line) for line in data.splitlines() if line.strip()]
    chosen = [shard for shard in found if number in (None, shard.number)]
    if not chosen:
        wanted = "no shard" if number is None else f"no shard {number}"
        raise click.UsageError(f"there is {wanted} in the input; give it the lines that `seorep shards plan` printed.")
    return chosen
