"""What changed between two nights: a table of facts, then random nights against an oracle in plain Python."""

import datetime as dt
import itertools
import zlib
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from seorep_async import Feed
from seorep_async.history import Change, changes
from seorep_async.session.secrets import Authentication
from tests.export.both_targets import pull_to_both
from tests.export.random_nights import Pull, no_rows, pulls
from tests.history.left_behind import pulled_windows
from tests.scripted_api import Asked, serving

ENGINES = {
    "engine_a": ("engineARanking", "engineARankingUrl"),
    "engine_a_mobile": ("engineAMobileRanking", "engineAMobileRankingUrl"),
    "engine_a_places": ("engineAPlacesRanking", None),
    "engine_b": ("engineBRanking", "engineBRankingUrl"),
}
Key = tuple[Any, ...]
Window = tuple[dt.date, dt.date]


def rank(number: int, keyword: int, engine: str) -> int | None:
    ranks: list[int | None] = [None, 0, *range(1, 26)]
    return Random(f"{number} {keyword} {engine}").choice(ranks)


def ranked(answer: Any, number: int) -> Any:
    """Add ranks and addresses to the rows of an answer."""
    for row in answer["data"]["rows"] if isinstance(answer, dict) and "rows" in answer["data"] else ():
        for engine, (name, address) in ENGINES.items():
            row[name] = rank(number, row["keywordId"], engine)
            row |= {} if address is None else {address: f"https://{number}.example.com/{engine}"}
        row["searchLocation"] = {"id": 1, "canonical_name": f"place {number}"}
    return answer


@attrs.define
class Oracle:
    """What pulls left behind, in plain dicts, and what changed in it.

    Attributes:
        rows: account, night, campaign → window → the number of the pull, and its keywords.
        failed: account, night, campaign → the windows that failed last.
    """

    rows: dict[Key, dict[Window, tuple[int, tuple[int, ...]]]] = attrs.field(factory=lambda: defaultdict(dict))
    failed: dict[Key, set[Window]] = attrs.field(factory=lambda: defaultdict(set))
    companies: dict[Key, str] = attrs.field(factory=dict)
    nights: dict[str, set[dt.date]] = attrs.field(factory=lambda: defaultdict(set))

    def add(self, pull: Pull) -> None:
        window = pull.start, pull.end
        for _, campaign, _, fails in pull.reports():
            place = pull.account, pull.night, campaign
            self.failed[place].discard(window)
            if fails:
                self.failed[place].add(window)
                continue
            self.rows[place].pop(window, None)
            if pull.keywords[campaign]:
                self.rows[place][window] = pull.number, pull.keywords[campaign]
                self.nights[pull.account].add(pull.night)

    def report(self, account: str, night: dt.date, campaign: int) -> tuple[int, tuple[int, ...]] | str | None:
        place = account, night, campaign
        windows = {*self.rows[place], *self.failed[place]}
        if not windows:
            return f"there are no rows of {night}"
        last = max(windows, key=lambda window: (window[1], -window[0].toordinal()))
        return self.rows[place].get(last, f"the report of {night} failed")

    def changes(self, account: str, before: dt.date, after: dt.date, moved: int) -> tuple[list[Change], dict[int, str]]:
        found, left_out = [], {}
        for campaign in range(1, 6):
            old, new = (self.report(account, night, campaign) for night in (before, after))
            reasons = [one for one in (old, new) if isinstance(one, str)]
            if not isinstance(old, tuple) or not isinstance(new, tuple):
                if not all(reason.startswith("there are") for reason in reasons) or len(reasons) == 1:
                    left_out[campaign] = " and ".join(sorted(reasons, key=lambda reason: reason[:9] != "the repor"))
                continue
            for keyword in sorted({*old[1], *new[1]}):
                for engine, kind, a, b in _kinds(keyword, old, new, moved):
                    number = new[0] if b is not None or (kind == "new") else old[0]
                    has_url = engine is not None and ENGINES[engine][1] is not None
                    row = Change(
                        account=account,
                        campaign_id=campaign,
                        company=self.companies.get((account, campaign)),
                        keyword_id=keyword,
                        keyword_phrase=f"{campaign} in pull {number}",
                        location=f"place {number}",
                        engine=engine,
                        kind=kind,
                        before=a,
                        after=b,
                        url=f"https://{number}.example.com/{engine}" if has_url else None,
                        before_date=before,
                        after_date=after,
                    )
                    found.append(row)
        return found, left_out


def _kinds(keyword: int, old: Any, new: Any, moved: int) -> list[tuple[str | None, str, int | None, int | None]]:
    """Return engine, kind and both ranks of each change of a keyword that a report has."""
    found: list[tuple[str | None, str, int | None, int | None]] = []
    for engine in ENGINES:
        a = rank(old[0], keyword, engine) or None if keyword in old[1] else None
        b = rank(new[0], keyword, engine) or None if keyword in new[1] else None
        if keyword not in old[1] or keyword not in new[1]:
            found += [(engine, "removed" if keyword in old[1] else "new", a, b)] if a or b else []
            continue
        kinds = {"found": a is None and b is not None, "lost": a is not None and b is None}
        kinds |= {"rose": bool(a and b and a - b >= moved), "fell": bool(a and b and b - a >= moved)}
        kinds |= {f"entered_top_{top}": (b or 99) <= top < (a or 99) for top in (3, 10, 20)}
        kinds |= {f"left_top_{top}": (a or 99) <= top < (b or 99) for top in (3, 10, 20)}
        found += [(engine, kind, a, b) for kind, holds in kinds.items() if holds]
    if not found and keyword not in old[1]:
        return [(None, "new", None, None)]
    if not found and keyword not in new[1]:
        return [(None, "removed", None, None)]
    return found


@pytest.fixture(autouse=True)
def cheap_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a twentieth of a second each night."""
    monkeypatch.setattr(
        Authentication, "fingerprint", lambda self, salt: str(zlib.crc32(self.header().encode(), salt[0]))
    )


@pytest.mark.parametrize("target", ["nights.duckdb", "nights/"])
@pytest.mark.parametrize("latest_first", [False, True])
async def test_of_several_windows_the_longest_that_ends_last_counts(
    tmp_path: Path, target: str, latest_first: bool
) -> None:
    source = await pulled_windows(f"{tmp_path}/{target}", latest_first=latest_first)
    assert [(one.kind, one.before, one.after) for one in changes(source, moved=3)] == [
        ("rose", 15, 8),
        ("entered_top_10", 15, 8),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), *(pytest.param(seed, 80, marks=pytest.mark.slow) for seed in range(2, 12))]
)
async def test_changes_of_random_nights_are_as_the_oracle_says(tmp_path: Path, seed: int, count: int) -> None:
    database, dataset = tmp_path / "nights.duckdb", tmp_path / "nights"
    oracle, held = Oracle(), no_rows()
    pull: Pull

    def answer(asked: Asked) -> object:
        return ranked(pull.answer(asked), pull.number)

    async with serving(answer) as (client, _):
        for pull in pulls(count, seed):
            pull.feeds = (Feed.CAMPAIGN,)
            await pull_to_both(client, pull, database, dataset)
            pull.apply_to(held)
            oracle.add(pull)
    oracle.companies = {(row["account"], row["campaign_id"]): row["company"] for row in held["campaigns"]}
    kinds = set()
    for account, every in oracle.nights.items():
        nights, random = sorted(every), Random(seed)
        pairs = [*itertools.pairwise(nights), *(sorted(random.sample(nights, 2)) for _ in range(2))]
        for before, after in pairs:
            expected, left_out = oracle.changes(account, before, after, moved := random.randint(1, 8))
            for source in (database, dataset):
                found = changes(source, account=account, before=before, after=after, moved=moved)
                assert (list(found), found.left_out) == (expected, left_out)
            kinds |= {change.kind for change in found}
    assert len(kinds) == 12
