"""The service, key and settings, from options, a profile or the environment; or the embedded sandbox in its place."""

from __future__ import annotations

import difflib
import enum
import os
import shlex
import tomllib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
import platformdirs

from seorep_async.cli.exit_codes import joined, message_of, option_of
from seorep_async.cli.keys import key_of_command, key_of_file, read_small_file, require_private, why
from seorep_async.cli.options import SANDBOX_DEFAULTS
from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, shown
from seorep_async.resources.arguments import Secret, check_account_name
from seorep_async.settings import EngineNames, Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_KEYS = ("key", "key_env", "key_command", "key_file")
_EMPTY = {
    "key_env": "the environment variable that it names is empty or not set",
    "key_command": "the command printed nothing",
    "key_file": "the first line of the file is empty",
}
_MOST_BYTES = 1024 * 1024
"""The largest configuration file, in bytes."""
_SETTINGS = {field.name: field for field in attrs.fields(Settings)}
_ENUMS = {name: type(field.default) for name, field in _SETTINGS.items() if isinstance(field.default, enum.Enum)}
_VARIABLES = {"request_encoding": "SEOREP_REQUEST_ENCODING", "array_encoding": "SEOREP_ARRAY_ENCODING"}
_NONE = ("call_timeout", "requests_per_second")
"""Settings that TOML can set to None by the string `none`."""
_ENGINES = ("engine_a", "engine_b", "webmaster_tools")


@attrs.frozen(kw_only=True)
class Connection:
    """A service or a sandbox, a key and settings, and the source of each.

    Attributes:
        profile: its name, or None.
        account: the account's name in the profile, or None.
        storage_options: of object stores, from the profile.
        sources: the source of each value that is no default, by its name.
        sandbox: to run while it is open, or None.
        service: a name of the sandbox, whose port changes each time, or None.
    """

    base_url: str = attrs.field(default="", repr=False)
    api_key: Secret = attrs.field(factory=Secret, repr=False)
    profile: str | None = None
    account: str | None = None
    settings: Settings
    storage_options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    sources: Mapping[str, str] = attrs.field(factory=dict)
    sandbox: Sandbox | None = None
    service: str | None = None

    @property
    def address(self) -> str:
        """The address of the service, or of the running sandbox."""
        return self.base_url if self.sandbox is None else self.sandbox.base_url

    @property
    def label(self) -> str:
        """The service in a summary."""
        return self.base_url if self.sandbox is None else f"the sandbox (seed {self.sandbox.seed})"

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[SeoRepClient]:
        """Open a client, and run the sandbox as long."""
        async with AsyncExitStack() as ending:
            if self.sandbox is not None:
                await ending.enter_async_context(self.sandbox)
            yield await ending.enter_async_context(self.client())

    def client(self) -> SeoRepClient:
        """Return a client that is not open yet; refuse an invalid address or key."""
        key = self.api_key if self.sandbox is None else self.sandbox.api_key
        try:
            return SeoRepClient(self.address, key, settings=self.settings)
        except ConfigurationError as error:
            problem = message_of(error, self.sources["key" if error.argument == "api_key" else "base_url"])
        raise click.ClickException(problem)  # outside the handler: the caught error's frames hold the key


def config_file() -> Path:
    """Return the file of the profiles: `~/.config/seorep/config.toml` on Linux."""
    return platformdirs.user_config_path("seorep") / "config.toml"


def connect(
    options: Mapping[str, Any], sandbox: Sandbox | None = None, *, otherwise: str = "try --sandbox"
) -> Connection:
    """Return the connection of the options: each value from its option, the profile or the environment.

    With a sandbox, it is to that. `otherwise` is the advice if no service and key are given.
    """
    if sandbox is not None:
        return _connect_sandbox(options, sandbox)
    name = options["profile"]
    if name is not None:
        profile, source = _profile(name), f"profile {name}"
        base_url = _string(profile, "base_url", source)
        key, key_source = _key(profile, source)
    else:
        profile, source = {}, ""
        base_url, key = os.environ.get("SEOREP_BASE_URL"), Secret.of(os.environ.get("SEOREP_API_KEY"))
        key_source = "SEOREP_API_KEY"
    sources = {"base_url": f"base_url of {source}" if source else "SEOREP_BASE_URL", "key": key_source}
    if options["base_url"] is not None:
        base_url, sources["base_url"] = options["base_url"], "--base-url"
    needed = {sources["base_url"]: base_url or "", key_source: key}
    if missing := [value for value, given in needed.items() if not given.strip()]:
        where = "" if source else " in the environment"
        raise click.ClickException(f"{joined(missing)} must be set{where}; or {otherwise}.")
    settings, given = _settings(options, profile, source)
    account = _string(profile, "account", source)
    try:
        account = None if account is None else check_account_name(account)
    except ConfigurationError as error:
        raise _refusal(error, source) from None
    return Connection(
        base_url=base_url or "",
        api_key=key,
        profile=name,
        account=account,
        settings=settings,
        storage_options=_storage_options(profile, source),
        sources={**sources, **given},
    )


def _connect_sandbox(options: Mapping[str, Any], sandbox: Sandbox) -> Connection:
    """Return the connection to a sandbox, with the settings of the options and no profile."""
    for name in ("profile", "base_url"):
        if options[name] not in (None, os.environ.get("SEOREP_PROFILE")):
            raise click.UsageError(f"--{name.replace('_', '-')}: not with --sandbox.")
    # the same with other faults or none, so that a pull resumes as after a recovery
    given = [f"--{name} {options[name]}" for name in SANDBOX_DEFAULTS if options[name] is not None]
    service = " ".join(["the sandbox", *given])
    return Connection(account="sandbox", settings=_settings(options, {}, "")[0], sandbox=sandbox, service=service)


def _settings(options: Mapping[str, Any], profile: Mapping[str, Any], source: str) -> tuple[Settings, dict[str, str]]:
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in _SETTINGS:
        variable = _VARIABLES.get(name, "")
        for value, given_by in (
            (options.get(name), option_of(name)),
            (profile.get(name), source),
            (os.environ.get(variable) or None, variable),
        ):
            if value is not None and name not in values:
                values[name], sources[name] = _converted(name, value, given_by), given_by
    try:
        return Settings(**values), sources
    except ConfigurationError as error:
        raise _refusal(error, sources[error.argument or ""]) from None


def _refusal(error: ConfigurationError, source: str) -> click.ClickException:
    """Return the refusal of a value from an option or a profile, which says how it can be None."""
    if source.startswith("--"):
        return click.ClickException(message_of(error).replace(", or None)", ")"))
    in_file = error.message.replace(", or None)", ', or "none")').replace("True or False", "true or false")
    return click.ClickException(f"{source}: {in_file}")


def _converted(name: str, value: Any, source: str) -> Any:
    """Return a value converted for its setting: in a file, members of enumerations and engine names are strings."""
    if name in _ENUMS:
        known = [member.value for member in _ENUMS[name]]
        if value not in known:
            raise click.ClickException(f"{source}: {name} must be one of {', '.join(known)}, got {value!r}")
        return _ENUMS[name](value)
    if name == "engine_names":
        return _engine_names(value, source)
    return None if value == "none" and name in _NONE else value


def _engine_names(value: Any, source: str) -> EngineNames:
    names = dict(zip(_ENGINES, value.split(","), strict=False)) if isinstance(value, str) else value
    if isinstance(value, str) and value.count(",") != len(_ENGINES) - 1:
        problem = "give three names for engineA, engineB and wmt, such as goo,bin,wmt"
    elif not isinstance(names, Mapping) or not set(names) <= set(_ENGINES):
        problem = f"engine_names must name {', '.join(_ENGINES)}"
    else:
        try:
            return EngineNames(**names)
        except ConfigurationError as error:
            raise _refusal(error, source) from None
    raise click.ClickException(f"{source}: {problem}")


def _profile(name: str) -> dict[str, Any]:
    """Return a profile of the configuration file; unknown names are refused."""
    file = config_file()
    try:
        data, status = read_small_file(file, _MOST_BYTES)
        profiles = tomllib.loads(data.decode("utf-8-sig"))
    except FileNotFoundError:
        raise click.ClickException(
            f"there is no profile {name!r}, as {file} does not exist; `seorep --help` shows an example."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise click.ClickException(f"can't read {file}: {why(error)}.") from None
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        known = ", ".join(other for other, value in profiles.items() if isinstance(value, dict)) or "none"
        raise click.ClickException(f"there is no profile {name!r} in {file}; it has: {known}.")
    # its writer can choose the address that the key is sent to, and the command that finds the key
    require_private(status, file, writable_only=not {"key", "storage_options"} & profile.keys())
    known_names = ("base_url", "account", *_KEYS, "storage_options", *_SETTINGS)
    if unknown := [other for other in profile if other not in known_names]:
        near = difflib.get_close_matches(unknown[0], known_names, 1)
        known = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(known_names)}."
        raise click.ClickException(f"profile {name}: unknown setting {shown(unknown[0])}; {known}")
    return profile


def _key(profile: Mapping[str, Any], source: str) -> tuple[Secret, str]:
    given = [name for name in _KEYS if name in profile]
    if len(given) != 1:
        problem = "there is no key" if not given else f"{joined(given)} can't be combined"
        raise click.ClickException(f"{source}: {problem}; set one of key_command, key_file, key_env.")
    (name,) = given
    if name == "key_command" and isinstance(profile[name], list):
        if not all(isinstance(word, str) for word in profile[name]):
            raise click.ClickException(f"{source}: key_command must be a string, or a list of strings.")
        value = shlex.join(profile[name])
    else:
        value = _string(profile, name, source) or ""
    readers: dict[str, Callable[[str], str]] = {
        "key": str,
        "key_env": lambda variable: os.environ.get(variable, ""),
        "key_command": key_of_command,
        "key_file": lambda file: key_of_file(config_file().parent, file),
    }
    key = Secret.of(readers[name](value))
    if not key.strip():
        raise click.ClickException(f"{source}: {name} gives no key, as {_EMPTY[name]}.")
    return key, f"{name} of {source}"


def _storage_options(profile: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    options = profile.get("storage_options", {})
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise click.ClickException(
            f'{source}: storage_options must be a table of strings, such as region = "eu-west-1".'
        )
    return options


def _string(profile: Mapping[str, Any], name: str, source: str) -> str | None:
    value = profile.get(name)
    if value is not None and not isinstance(value, str):
        raise click.ClickException(f"{source}: {name} must be a string.")
    if value is not None and not value.strip():
        raise click.ClickException(f"{source}: {name} is empty; set it in {config_file()}.")
    return value
