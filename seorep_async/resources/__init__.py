"""Every call of the service: one class a resource, one method an operation.

| operation | method of the client | result |
| --- | --- | --- |
| `POST /v3/campaigns` | `campaigns.create(url, company, …)` | `Campaign` |
| `GET /v3/campaigns/:id` | `campaigns.get(id)` | `Campaign` |
| `PUT /v3/campaigns/:id` | `campaigns.update(id, …)` | `Campaign` |
| `GET /v3/campaigns` | `campaigns.list(…)` | `Listing` of `Campaign` |
| `DELETE /v3/campaigns/:id` | `campaigns.delete(id)` | None |
| `POST /v3/users` | `users.create(first_name, last_name, username, password, role, …)` | `User` |
| `GET /v3/users/:id` | `users.get(id)` | `User` |
| `PUT /v3/users/:id` | `users.update(id, …)` | `User` |
| `GET /v3/users` | `users.list(…)` | `Listing` of `User` |
| `DELETE /v3/users/:id` | `users.delete(id)` | None |
| `GET /v3/users/:id/loginGrant` | `users.login_grant(id)` | `LoginGrant` |
| `GET /v3/keywords/:id` | `keywords.get(id)` | `Keyword` |
| `GET /v3/keywords` | `keywords.list(…)` | `Listing` of `Keyword` |
| `GET /v3/resources/rankings/campaign` | `rankings.campaign(campaign_id, …)` | report of `KeywordRanking` |
| `GET /v3/resources/rankings/campaign/date` | `rankings.campaign_by_date(…)` | report of `CampaignPeriod` |
| `GET /v3/resources/rankings/keyword/date` | `rankings.keyword_by_date(keyword_id, …)` | report of `KeywordPeriod` |
| `POST /v3/backlinks` | `backlinks.create(campaign_id, title, url, status, date_published, …)` | `Backlink` |
| `GET /v3/backlinks/:id` | `backlinks.get(id)` | `Backlink` |
| `PUT /v3/backlinks/:id` | `backlinks.update(id, …)` | `Backlink` |
| `GET /v3/resources/backlinks/manager/links` | `backlinks.list(campaign_id, …)` | `Listing` of `Backlink` |
| `DELETE /v3/backlinks/:id` | `backlinks.delete(id)` | None |

`client.rankings.pull(ids, start_date, end_date, feed=…)` fetches one feed for many ids in parallel, and
`client.request(method, path, …)` sends anything else.

Parameters have the service's own names. Dates are `datetime.date` or `"YYYY-MM-DD"`, ids are ints from 1 to 2**31 - 1.
Every method takes `extra_params`: further parameters, sent as they are.

`list` and the three feeds return a `Listing`, which fetches nothing until it is used, and fetches again at every use:

```python
campaigns = await client.campaigns.list(order_by="company")  # everything, in order

page = await client.campaigns.list(limit=5).page(2)  # one page
print("page", page.number, "of", page.total_pages, "with", len(page.items), "campaigns")

async for period in client.rankings.campaign_by_date(campaigns[0].id, "2023-01-01", "2023-03-31"):
    print(period.date, period.engine_a_rankings_1_3)  # one at a time, as pages arrive
```

Awaiting a feed gives a `RankingReport`: `rows`, `totals` (None where the service sent none), `total_records`, and the
id and dates that were requested. A report and a list also become dictionaries, JSON lines and data frames, and show
themselves in notebooks: `seorep_async/guides/tables.md`.
"""

from seorep_async.resources.backlinks import Backlinks
from seorep_async.resources.campaigns import Campaigns
from seorep_async.resources.keywords import Keywords
from seorep_async.resources.rankings import Rankings
from seorep_async.resources.raw_requests import RawRequests
from seorep_async.resources.users import Users

__all__ = ["Backlinks", "Campaigns", "Keywords", "Rankings", "RawRequests", "Users"]
