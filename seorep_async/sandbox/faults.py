"""Faults that can be asked for, each in a share of the requests: `resets=5%,500s=5%,cut=2%`."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from attrs import field, frozen

from .data.seeding import mix

KINDS = (
    "resets", "cut", "hang", "slow", "closes", "empty", "html", "malformed", "errors", "redirects", "garbage",
)  # fmt: skip

_STATUS = re.compile("[45][0-9]{2}s")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(%?)")
_SALT = 0x0FA017


def _shares(shares: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(shares))


@frozen
class Faults:
    """Which faults happen, and how often.

    Args:
        shares: the share of requests (0 to 1) that each kind of fault meets; together at most 1.
        seed: chooses which requests; the sandbox's own seed unless given.

    Raises:
        ValueError: there is no such kind, or a share is out of its range.
    """

    shares: Mapping[str, float] = field(factory=dict, converter=_shares)
    seed: int | None = None

    def __attrs_post_init__(self) -> None:
        for kind, share in self.shares.items():
            if kind not in KINDS and not _STATUS.fullmatch(kind):
                raise ValueError(f"faults: there is no kind {kind!r}: use {', '.join(KINDS)}, or 400s to 599s")
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise ValueError(f"faults: the share of {kind} must be from 0 to 1 (0% to 100%), not {share!r}")
        if sum(self.shares.values()) > 1 + 1e-9:
            raise ValueError(f"faults: the shares must not add up to more than 100%: {self}")
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError(f"faults: the seed must be an integer, not {self.seed!r}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read faults from a text such as `resets=5%,500s=0.05,cut=2%,seed=7`; an empty text means none.

        Raises:
            ValueError: the text is not of this form.
        """
        shares: dict[str, float] = {}
        seed = None
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals:
                raise ValueError(f"faults: {part!r} is not of the form kind=share, such as resets=5%")
            if name in shares or (name == "seed" and seed is not None):
                raise ValueError(f"faults: {name} is given twice")
            if name == "seed":
                seed = _parse_seed(value)
            else:
                shares[name] = _parse_share(name, value)
        return cls(shares, seed)

    def __str__(self) -> str:
        parts = [f"{kind}={share:.10g}" for kind, share in self.shares.items()]
        return ",".join(parts if self.seed is None else [*parts, f"seed={self.seed}"])

    def draw(self, seed: int, number: int) -> str | None:
        """Return the kind of fault that meets a request, or None.

        Args:
            seed: the sandbox's seed.
            number: the request's number.
        """
        chance = mix(mix((seed if self.seed is None else self.seed) ^ _SALT) ^ number) / 2**64
        for kind, share in self.shares.items():
            chance -= share
            if chance < 0:
                return kind
        return None


def _parse_seed(text: str) -> int:
    if not re.fullmatch("-?[0-9]{1,19}", text):
        raise ValueError(f"faults: the seed must be an integer, not {text!r}")
    return int(text)


def _parse_share(name: str, text: str) -> float:
    parts = _SHARE.fullmatch(text)
    if not parts:
        raise ValueError(f"faults: the share of {name} must be written like 5% or 0.05, not {text!r}")
    return float(parts[1]) / (100 if parts[2] else 1)
