"""Users. Passwords are read and forgotten: nothing here keeps one."""

from datetime import datetime, timedelta

from attrs import frozen

from .campaigns import slug
from .seeding import Dice, mix
from .vocabulary import FIRST_NAMES, LAST_NAMES

RESTRICTED = "restricted"

_HIRED = datetime(2014, 1, 6, 9, 15)
_ROLES = (("client", RESTRICTED), ("client", RESTRICTED), ("staff", "all"), ("admin", "all"))


@frozen(kw_only=True)
class User:
    """What the account holds about one user."""

    id: int
    account_id: int
    username: str
    first_name: str
    last_name: str
    email: str = ""
    role: str
    campaign_access: str = RESTRICTED
    created: datetime


def make_user(key: int, account_id: int, id_: int) -> User:
    """Make a seeded user; the first is an administrator."""
    dice = Dice(mix(key ^ mix(id_ + 2**33)))
    # The numbers of first and last names have no common divisor, so all pairs come before one comes again.
    place = id_ - 1 + key % 1000
    first, last = FIRST_NAMES[place % len(FIRST_NAMES)], LAST_NAMES[place % len(LAST_NAMES)]
    again = (id_ - 1) // (len(FIRST_NAMES) * len(LAST_NAMES))
    username = f"{slug(first)}.{slug(last)}{again + 1 if again else ''}"
    role, access = _ROLES[-1] if id_ == 1 else dice.pick(_ROLES)
    return User(
        id=id_,
        account_id=account_id,
        username=username,
        first_name=first,
        last_name=last,
        email=f"{username}@agency.example",
        role=role,
        campaign_access=access,
        created=_HIRED + timedelta(days=id_ * 5 % 2900, seconds=dice.below(28_800)),
    )
