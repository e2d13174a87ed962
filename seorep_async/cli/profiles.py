"""Address, key and settings: from options, a profile of config.toml or the environment; or the embedded sandbox."""

from __future__ import annotations

import enum
import os
import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import attrs

from seorep_async.cli.embedded import build, started
from seorep_async.cli.errors import reason
from seorep_async.cli.exit_codes import UsageError, near
from seorep_async.cli.keys import config_file, key_of_command, profiles
from seorep_async.cli.options import Service
from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, shown
from seorep_async.resources.arguments import Secret
from seorep_async.sandbox import Sandbox
from seorep_async.settings import EngineNames, Settings

DEFAULT = "default"
_DEFAULTS = {field.name: field.default for field in attrs.fields(Settings)}
_OWN = ("base_url", "account", "key_command", "key", "report_engines")
_ENGINES = ("engine_a", "engine_b", "webmaster_tools")


@attrs.frozen(kw_only=True)
class Connection:
    """A service or a sandbox, a key and settings, and the source of each.

    Attributes:
        sources: the source of each value that is no default, by its name.
        sandbox: to run while it is open, or None.
    """

    base_url: Any = attrs.field(default="", repr=False)
    key: Secret = attrs.field(factory=Secret, repr=False)
    account: Any = None
    settings: Settings
    sources: Mapping[str, str] = attrs.field(factory=dict)
    profile: str | None = None
    sandbox: Sandbox | None = None

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncGenerator[SeoRepClient]:
        """Open a client, with some settings in place of its own, and run the sandbox as long."""
        async with nullcontext() if self.sandbox is None else started(self.sandbox):
            address, key = self.base_url, self.key
            if self.sandbox is not None:
                address, key = self.sandbox.base_url, Secret(self.sandbox.api_key)
            changed = attrs.evolve(self.settings, **settings)
            try:
                client = SeoRepClient(address, key, settings=changed, account=self.account)
            except ConfigurationError as error:
                name = "key" if error.argument == "api_key" else error.argument or ""
                raise UsageError(reason(error, self.sources.get(name, name))) from None
            async with client:
                yield client

    @property
    def label(self) -> str:
        """The service in a summary."""
        return self.base_url if self.sandbox is None else f"the sandbox (seed {self.sandbox.seed})"


def connect(service: Service) -> Connection:
    """Return the connection of the options: each value from its option, the profile or the environment."""
    if (options := service.embedded) is not None:
        if own := next((name for name in ("port", "api_key") if name in options), None):
            raise UsageError(f"-s {own}: only of `seorep sandbox`; an embedded one chooses its own.")
        return Connection(settings=_settings({}, "-c", service.settings), sandbox=build(options), account="sandbox")
    name, profile = chosen_profile(service)
    if name is None:
        values: dict[str, Any] = {one: os.environ.get(f"SEOREP_{one.upper()}") for one in ("base_url", "api_key")}
        key, sources = Secret.of(values.pop("api_key")), {"base_url": "SEOREP_BASE_URL", "key": "SEOREP_API_KEY"}
    else:
        values, sources = {**profile}, {one: f"{one} of profile {name}" for one in ("base_url", "key", *profile)}
        key, sources["key"] = _key(profile, name), sources.get("key_command", sources["key"])
    if service.base_url is not None:
        values["base_url"], sources["base_url"] = service.base_url, "--base-url"
    needed = {"base_url": values.get("base_url"), "key": key}
    if missing := [sources[one] for one, value in needed.items() if not str(value or "").strip()]:
        raise UsageError(f"{' and '.join(missing)} must be set; or run `seorep login`, or try --sandbox.")
    return Connection(
        base_url=values["base_url"],
        key=key,
        account=values.get("account"),
        settings=_settings(profile, f"profile {name}", service.settings),
        sources=sources | dict.fromkeys(service.settings, "-c"),
        profile=name,
    )


def chosen_profile(service: Service) -> tuple[str | None, Mapping[str, Any]]:
    """Return the profile's name and values: the one that is named, else `default` where nothing names a service."""
    name = service.profile
    if name is None:
        if service.base_url is not None or os.environ.get("SEOREP_BASE_URL") or DEFAULT not in profiles():
            return None, {}
        name = DEFAULT
    known = profiles()
    if name not in known:
        has = f"it has: {', '.join(known) or 'none'}.{near(name, known)} `seorep login NAME` makes one."
        raise UsageError(f"there is no profile {name!r} in {config_file()}; {has}")
    _refuse_unknown(known[name], f"profile {name}", (*_OWN, *_DEFAULTS))
    return name, known[name]


def report_engines(profile: str | None) -> list[str] | None:
    """Return the names of the engines for a report, from the profile."""
    names = chosen_profile(Service(profile=profile))[1].get("report_engines")
    found = [one.strip() for one in str(names).split(",")]
    if names is not None and (len(found) != 2 or not all(found)):
        raise UsageError('report_engines must be two names, such as "Google, Bing".')
    return None if names is None else found


def _key(profile: Mapping[str, Any], name: str) -> Secret:
    if ("key" in profile) == ("key_command" in profile):
        raise UsageError(f"profile {name}: set either key_command or key.")
    return Secret.of(profile["key"]) if "key" in profile else key_of_command(profile["key_command"])


def _refuse_unknown(names: Mapping[str, Any], source: str, known: tuple[str, ...]) -> None:
    if unknown := next((one for one in names if one not in known), None):
        advice = near(unknown, known) or f" The settings are {', '.join(known)}."
        raise UsageError(f"{source}: there is no setting {shown(unknown)}.{advice}")


def _settings(profile: Mapping[str, Any], source: str, given: Mapping[str, str]) -> Settings:
    """Return the settings of a profile and of NAME=VALUE pairs, which come first."""
    _refuse_unknown(given, "-c", tuple(_DEFAULTS))
    named = {name: value for name, value in profile.items() if name not in _OWN}
    named |= {name: _toml(value) for name, value in given.items()}
    try:
        return Settings(**{name: _converted(name, value) for name, value in named.items()})
    except ConfigurationError as error:
        problem = error.message.replace(", or None", ', or "none"').replace("True or False", "true or false")
        raise UsageError(f"{'-c' if error.argument in given else source}: {problem}") from None


def _toml(value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def _converted(name: str, value: Any) -> Any:
    """Return a value converted for its setting: members of enumerations and engine names are strings."""
    default = _DEFAULTS[name]
    if isinstance(default, enum.Enum):
        found = next((member for member in type(default) if member.value == value), None)
        known = ", ".join(member.value for member in type(default))
        if found is None:
            raise ConfigurationError(f"{name} must be one of {known}, got {shown(value)}", argument=name)
        return found
    if name == "engine_names":
        names = str(value).split(",")
        if len(names) != len(_ENGINES):
            problem = f"{name} must be three names for engineA, engineB and wmt, such as goo,bin,wmt"
            raise ConfigurationError(problem, argument=name)
        return EngineNames(**dict(zip(_ENGINES, names, strict=True)))
    return None if value == "none" else value
