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

from seorep_async.cli.embedded import build
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
_NONE = ("call_timeout", "requests_per_second", "proxy")
"""Settings that can be None, by the string `none`."""
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
                await ending.enter_async_context(self.sandbox)
                address, key = self.sandbox.base_url, Secret(self.sandbox.api_key)
            client = client_of(address, key, attrs.evolve(self.settings, **settings), self.account, self.sources)
            yield await ending.enter_async_context(client)

    @property
    def label(self) -> str:
        """The service in a summary."""
        return self.base_url if self.sandbox is None else f"the sandbox (seed {self.sandbox.seed})"


def client_of(
    base_url: str, key: Secret, settings: Settings, account: str | None, sources: Mapping[str, str]
) -> SeoRepClient:
    """Return a client that is not open yet; a UsageError names the source of what is wrong."""
    try:
        return SeoRepClient(base_url, key, settings=settings, account=account)
    except ConfigurationError as error:
        name = {"api_key": "key", "base_url": "base_url"}.get(error.argument or "", "account")
        problem = reason(error, sources.get(name, name))
    raise UsageError(problem)  # outside the handler: the caught error's frames hold the key


def connect(service: Service) -> Connection:
    """Return the connection of the options: each value from its option, the profile or the environment."""
    if (options := service.embedded) is not None:
        settings = settings_of({}, "", service.settings)
        return Connection(settings=settings, sandbox=build(options), account="sandbox")
    name, profile = chosen_profile(service)
    if name is None:
        base_url, key = os.environ.get("SEOREP_BASE_URL", ""), Secret.of(os.environ.get("SEOREP_API_KEY"))
        sources = {"base_url": "SEOREP_BASE_URL", "key": "SEOREP_API_KEY"}
    else:
        base_url, key = _string(profile, "base_url", name) or "", _key(profile, name)
        sources = {each: f"{each} of profile {name}" for each in profile}
        sources["key"] = f"{'key' if 'key' in profile else 'key_command'} of profile {name}"
    if service.base_url is not None:
        base_url, sources["base_url"] = service.base_url, "--base-url"
    missing = [source for source, value in ((sources.get("base_url"), base_url), (sources["key"], key)) if not value.strip()]
    if missing:
        needed = " and ".join(one or f"base_url of profile {name}" for one in missing)
        raise UsageError(f"{needed} must be set; or run `seorep login`, or try --sandbox.")
    sources |= {each: "-c" for each in service.settings}
    settings = settings_of(profile, name or "", service.settings)
    return Connection(
        base_url=base_url, key=key, account=_string(profile, "account", name), settings=settings, sources=sources
    )


def chosen_profile(service: Service) -> tuple[str | None, Mapping[str, Any]]:
    """Return the profile's name and values: the one that is named, else `default` where nothing names a service."""
    if service.profile is not None:
        return service.profile, _profile(service.profile)
    if service.base_url is None and not os.environ.get("SEOREP_BASE_URL") and _has_default():
        return DEFAULT, _profile(DEFAULT)
    return None, {}


def _has_default() -> bool:
    try:
        return config_file().exists() and isinstance(profiles()[0].get(DEFAULT), dict)
    except (UsageError, OSError):  # no home folder, no file that could be read: no profile
        return False


def report_engines(profile: str | None) -> tuple[str, str] | None:
    """Return the names of the engines for a report, from the profile."""
    _, values = chosen_profile(Service(profile=profile))
    names = values.get("report_engines")
    if isinstance(names, str):
        names = [one.strip() for one in names.split(",")]
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(one, str) and one for one in names):
        raise UsageError('report_engines must be two names, such as "Google, Bing".')
    return names[0], names[1]


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
    _refuse_unknown(profile, f"profile {name}: ")
    return profile


def _refuse_unknown(names: Mapping[str, Any], source: str, own: tuple[str, ...] = _OWN) -> None:
    known = (*own, *_DEFAULTS)
    if unknown := next((one for one in names if one not in known), None):
        advice = near(unknown, known) or f" The settings are {', '.join(known)}."
        raise UsageError(f"{source}there is no setting {shown(unknown)}.{advice}")


def settings_of(profile: Mapping[str, Any], name: str, given: Mapping[str, str]) -> Settings:
    """Return the settings of a profile and of NAME=VALUE pairs, which come first."""
    _refuse_unknown(given, "-c: ", ())
    values: dict[str, Any] = {}
    for source, named in ((f"profile {name}", profile), ("-c", {one: _toml(value) for one, value in given.items()})):
        for setting, value in named.items():
            if setting not in _OWN:
                values[setting] = _converted(setting, value, source)
    try:
        return Settings(**values)
    except ConfigurationError as error:
        argument = error.argument or ""
        source = "-c" if argument in given else f"profile {name}"
        raise UsageError(f"{source}: {_in_file(error)}") from None


def _toml(value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def _converted(name: str, value: Any, source: str) -> Any:
    """Return a value converted for its setting: members of enumerations and engine names are strings."""
    default = _DEFAULTS[name]
    if isinstance(default, enum.Enum):
        known = [member.value for member in type(default)]
        if value not in known:
            raise UsageError(f"{source}: {name} must be one of {', '.join(known)}, got {shown(value)}")
        return type(default)(value)
    if name == "engine_names":
        names = dict(zip(_ENGINES, value.split(","), strict=False)) if isinstance(value, str) else value
        if isinstance(value, str) and value.count(",") != len(_ENGINES) - 1:
            raise UsageError(f"{source}: {name}: give three names for engineA, engineB and wmt, such as goo,bin,wmt")
        if not isinstance(names, dict) or not set(names) <= set(_ENGINES):
            raise UsageError(f"{source}: {name} must name {', '.join(_ENGINES)}")
        try:
            return EngineNames(**names)
        except ConfigurationError as error:
            raise UsageError(f"{source}: {_in_file(error)}") from None
    return None if value == "none" and name in _NONE else value


def _in_file(error: ConfigurationError) -> str:
    """Return the refusal of a value in a file, where None and booleans are written otherwise."""
    return reason(error, error.argument or "").replace(", or None", ', or "none"').replace("True or False", "true or false")


def _key(profile: Mapping[str, Any], name: str) -> Secret:
    if ("key" in profile) == ("key_command" in profile):
        problem = "there is no key" if "key" not in profile else "key and key_command can't be combined"
        raise UsageError(f"profile {name}: {problem}; set one of key_command and key.")
    if "key" in profile:
        return Secret(_string(profile, "key", name))
    command = profile["key_command"]
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise UsageError(f"profile {name}: key_command can't be run: {error}.") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or not words:
        raise UsageError(f"profile {name}: key_command must be a string, or a list of strings, and not empty.")
    key = Secret(key_of_command(words))
    if not key.strip():
        raise UsageError(f"profile {name}: key_command gives no key, as the command printed nothing.")
    return key


def _string(profile: Mapping[str, Any], name: str, of: str | None) -> str | None:
    value = profile.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"profile {of}: {name} must be a string.")
    if value is not None and not value.strip():
        raise UsageError(f"profile {of}: {name} is empty; set it in {config_file()}.")
    return value
