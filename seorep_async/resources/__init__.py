"""The calls of the service: one class for each resource, one method for each operation."""

from seorep_async.resources.backlinks import Backlinks as Backlinks
from seorep_async.resources.campaigns import Campaigns as Campaigns
from seorep_async.resources.endpoint import any_request as any_request
from seorep_async.resources.keywords import Keywords as Keywords
from seorep_async.resources.rankings import Rankings as Rankings
from seorep_async.resources.users import Users as Users
