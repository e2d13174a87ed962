"""requests in 32 threads, each with its own session: untyped dicts, which are dropped once they are counted."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import requests

from benchmarks.load import API_KEY, END_DATE, PATH, START_DATE, Load

_THREADS = 32


def pull(address: str, load: Load) -> int:
    """Pull a load; the number of threads is fixed."""
    local = threading.local()

    def session() -> requests.Session:
        if not hasattr(local, "session"):
            local.session = requests.Session()
            local.session.auth = ("", API_KEY)
        return local.session

    def fetch(job: tuple[int, int]) -> tuple[int, int]:
        campaign, page = job
        query = {
            "campaign_id": campaign,
            "start_date": START_DATE,
            "end_date": END_DATE,
            "page": page,
        }
        answer = session().get(f"{address}{PATH}", params=query, timeout=30)
        answer.raise_for_status()
        # not .json(), which would use the slower simplejson if another peer has installed it
        report = json.loads(answer.content)
        return len(report["data"]["rows"]), report["metadata"]["total_pages"]

    ids = range(1, load.campaigns + 1)
    with ThreadPoolExecutor(_THREADS) as pool:
        first = list(pool.map(fetch, [(campaign, 1) for campaign in ids]))
        others = [
            (campaign, n)
            for campaign, (_, last) in zip(ids, first, strict=True)
            for n in range(2, last + 1)
        ]
        rest = pool.map(fetch, others)
        return sum(rows for rows, _ in first) + sum(rows for rows, _ in rest)
