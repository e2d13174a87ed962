"""Address, key and settings: from options, a profile of config.toml or the environment; or the embedded sandbox."""

from __future__ import annotations

import enum
import os
import shlex
import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs

from seorep_async.cli.embedded import build, started
from seorep_async.cli.errors import reason
from seorep_async.cli.exit_codes import UsageError, near
from seorep_async.cli.keys import config_file, key_of_command, read_config, require_private, why
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

    base_url: str = attrs.field(default="", repr=False)
    key: Secret = attrs.field(factory=Secret, repr=False)
    account: str | None = None
    settings: Settings
    sources: Mapping[str, str] = attrs.field(factory=dict)
    sandbox: Sandbox | None = None

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncGenerator[SeoRepClient]:
        """Open a client, with some settings in place of its own, and run the sandbox as long."""
        async with AsyncExitStack() as ending:
            address, key = self.base_url, self.key
            if self.sandbox is not None:
                await ending.enter_async_context(started(self.sandbox))
                address, key = self.sandbox.base_url, Secret(self.sandbox.api_key)
            settings_ = attrs.evolve(self.settings, **settings)
            try:
                client, problem = SeoRepClient(address, key, settings=settings_, account=self.account), ""
            except ConfigurationError as error:
                name = "key" if error.argument == "api_key" else error.argument or ""
                problem = reason(error, self.sources.get(name, name))
            if problem:
                raise UsageError(problem)  # outside the handler: the caught error's frames hold the key
            yield await ending.enter_async_context(client)

    @property
    def label(self) -> str:
        """The service in a summary."""
        return self.base_url if self.sandbox is None else f"the sandbox (seed {self.sandbox.seed})"


def connect(service: Service) -> Connection:
    """Return the connection of the options: each value from its option, the profile or the environment."""
    if (options := service.embedded) is not None:
        return Connection(settings=_settings({}, "", service.settings), sandbox=build(options), account="sandbox")
    name, profile = chosen_profile(service)
    if name is None:
        base_url, key = os.environ.get("SEOREP_BASE_URL", ""), Secret.of(os.environ.get("SEOREP_API_KEY"))
        sources = {"base_url": "SEOREP_BASE_URL", "key": "SEOREP_API_KEY"}
    else:
        base_url, key = _string(profile, "base_url", name) or "", _key(profile, name)
        sources = {**dict.fromkeys(profile, f"profile {name}"), "base_url": f"base_url of profile {name}"}
        sources["key"] = f"{'key' if 'key' in profile else 'key_command'} of profile {name}"
    if service.base_url is not None:
        base_url, sources["base_url"] = service.base_url, "--base-url"
    if missing := [sources[each] for each, value in (("base_url", base_url), ("key", key)) if not value.strip()]:
        raise UsageError(f"{' and '.join(missing)} must be set; or run `seorep login`, or try --sandbox.")
    return Connection(
        base_url=base_url,
        key=key,
        account=_string(profile, "account", name),
        settings=_settings(profile, name, service.settings),
        sources=sources | dict.fromkeys(service.settings, "-c"),
    )


def chosen_profile(service: Service) -> tuple[str | None, Mapping[str, Any]]:
    """Return the profile's name and values: the one that is named, else `default` where nothing names a service."""
    if service.profile is not None:
        return service.profile, _profile(service.profile)
    if service.base_url is None and not os.environ.get("SEOREP_BASE_URL"):
        try:
            if DEFAULT in profiles()[0]:
                return DEFAULT, _profile(DEFAULT)
        except OSError:  # there is no such file
            pass
    return None, {}


def report_engines(profile: str | None) -> tuple[str, str] | None:
    """Return the names of the engines for a report, from the profile."""
    names = chosen_profile(Service(profile=profile))[1].get("report_engines")
    if names is None:
        return None
    names = names.split(",") if isinstance(names, str) else names
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(one, str) and one.strip() for one in names):
        raise UsageError('report_engines must be two names, such as "Google, Bing".')
    return names[0].strip(), names[1].strip()


def profiles() -> tuple[dict[str, Any], os.stat_result]:
    """Return the contents of the configuration file, and its status; FileNotFoundError if there is none."""
    file = config_file()
    try:
        text, status = read_config(file)
        return tomllib.loads(text), status
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"can't read {file}: {why(error)}.") from None


def _profile(name: str) -> dict[str, Any]:
    """Return a profile of the configuration file; unknown names are refused."""
    file = config_file()
    try:
        found, status = profiles()
    except FileNotFoundError:
        problem = f"there is no profile {name!r}, as {file} does not exist; `seorep login {name}` makes one."
        raise UsageError(problem) from None
    profile = found.get(name)
    if not isinstance(profile, dict):
        names = [other for other, value in found.items() if isinstance(value, dict)]
        has = f"it has: {', '.join(names) or 'none'}."
        raise UsageError(f"there is no profile {name!r} in {file}; {has}{near(name, names)}")
    require_private(status, file, holds_key="key" in profile)
    _refuse_unknown(profile, f"profile {name}", (*_OWN, *_DEFAULTS))
    return profile


def _refuse_unknown(names: Mapping[str, Any], source: str, known: tuple[str, ...]) -> None:
    if unknown := next((one for one in names if one not in known), None):
        advice = near(unknown, known) or f" The settings are {', '.join(known)}."
        raise UsageError(f"{source}: there is no setting {shown(unknown)}.{advice}")


def _settings(profile: Mapping[str, Any], name: str | None, given: Mapping[str, str]) -> Settings:
    """Return the settings of a profile and of NAME=VALUE pairs, which come first."""
    _refuse_unknown(given, "-c", tuple(_DEFAULTS))
    named = {each: value for each, value in profile.items() if each not in _OWN}
    named |= {each: _toml(value) for each, value in given.items()}
    values: dict[str, Any] = {}
    setting = ""
    try:
        for setting, value in named.items():
            values[setting] = _converted(setting, value)
        return Settings(**values)
    except ConfigurationError as error:
        source = "-c" if (error.argument or setting) in given else f"profile {name}"
        problem = reason(error, error.argument or "").replace(", or None", ', or "none"')
        raise UsageError(f"{source}: {problem.replace('True or False', 'true or false')}") from None


def _toml(value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def _converted(name: str, value: Any) -> Any:
    """Return a value converted for its setting: members of enumerations and engine names are strings."""
    default = _DEFAULTS[name]
    if isinstance(default, enum.Enum):
        known = {member.value: member for member in type(default)}
        if value not in known:
            raise ConfigurationError(f"{name} must be one of {', '.join(known)}, got {shown(value)}", argument=name)
        return known[value]
    if name == "engine_names":
        names = dict(zip(_ENGINES, value.split(","), strict=False)) if isinstance(value, str) else value
        if not isinstance(names, dict) or not set(names) <= {*_ENGINES} or (isinstance(value, str) and len(names) != 3):
            problem = f"{name} must be three names for engineA, engineB and wmt, such as goo,bin,wmt"
            raise ConfigurationError(problem, argument=name)
        return EngineNames(**names)
    return None if value == "none" else value


def _key(profile: Mapping[str, Any], name: str) -> Secret:
    if ("key" in profile) == ("key_command" in profile):
        problem = "there is no key" if "key" not in profile else "key and key_command can't be combined"
        raise UsageError(f"profile {name}: {problem}; set one of key_command and key.")
    if "key" in profile:
        return Secret(_string(profile, "key", name))
    words = profile["key_command"]
    try:
        words = shlex.split(words) if isinstance(words, str) else words
    except ValueError as error:
        raise UsageError(f"profile {name}: key_command can't be run: {error}.") from None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise UsageError(f"profile {name}: key_command must be a string, or a list of strings, and not empty.")
    key = Secret(key_of_command(words))
    if not key.strip():
        raise UsageError(f"profile {name}: key_command gives no key, as the command printed nothing.")
    return key


def _string(profile: Mapping[str, Any], name: str, of: str | None) -> str | None:
    value = profile.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        problem = "must be a string" if not isinstance(value, str) else f"is empty; set it in {config_file()}"
        raise UsageError(f"profile {of}: {name} {problem}.")
    return value
