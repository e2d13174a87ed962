"""A shard that no plan gave."""

import datetime as dt

from seorep_async import Feed, Settings
from seorep_async.shards import Shard
from tests.export.reports import END, NIGHT, START

SHARD = Shard(
    number=0,
    count=3,
    pull="0123456789ab",
    base_url="https://localhost",
    account="acme",
    key_from="env:SEOREP_API_KEY",
    key_digest="0",
    snapshot_date=NIGHT,
    started_at=dt.datetime(2023, 4, 2),
    ids=(1, 2),
    start_date=START,
    end_date=END,
    feeds=(Feed.CAMPAIGN,),
    options={},
    settings=Settings(),
    out="/shared/",
    storage_options={},
    work_dir=None,
)
