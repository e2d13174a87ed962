"""Address, key and settings: from options, a profile of config.toml or the environment; `seorep login` stores one."""

from __future__ import annotations

import asyncio
import enum
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import click

from seorep_async.cli.errors import UsageError, near, reason
from seorep_async.cli.options import Opt, Service, later
from seorep_async.cli.output import can_ask, counted, messages
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, shown
from seorep_async.resources.arguments import Secret
from seorep_async.session import base_url_problem
from seorep_async.settings import EngineNames, Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

DEFAULT = "default"
_DEFAULTS = {field.name: field.default for field in attrs.fields(Settings)}
_OWN = ("base_url", "account", "key_command", "key", "report_engines")
_ENGINES = ("engine_a", "engine_b", "webmaster_tools")
_MOST_BYTES, _MOST_KEY_BYTES = 1024 * 1024, 64 * 1024
COMMAND_SECONDS, PASSPHRASE_SECONDS = 7.0, 300.0
"""The longest run of a key_command; the second where a person may have to type a passphrase."""


@attrs.frozen(kw_only=True)
class Connection:
    """A service or a sandbox, a key and settings, and the source of each.

    Attributes:
        sources: the source of each value that is no default, by its name.
        sandbox: to run while it is open, or None.
    """

    base_url: Any = attrs.field(default="", repr=False)
    api_key: Secret = attrs.field(factory=Secret, repr=False)
    account: Any = None
    settings: Settings
    sources: Mapping[str, str] = attrs.field(factory=dict)
    profile: str | None = None
    sandbox: Sandbox | None = None

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncGenerator[SeoRepClient]:
        """Open a client, with some settings in place of its own, and run the sandbox as long."""
        async with AsyncExitStack() as running:
            service = (
                self
                if self.sandbox is None
                else await later("sandbox", "started")(self.sandbox, running)
            )
            changed = attrs.evolve(self.settings, **settings)
            try:
                client = SeoRepClient(
                    service.base_url, service.api_key, settings=changed, account=self.account
                )
            except ConfigurationError as error:
                name = "key" if error.argument == "api_key" else error.argument or ""
                raise UsageError(reason(error, self.sources.get(name, name))) from None
            yield await running.enter_async_context(client)

    @property
    def label(self) -> str:
        """The service in a summary."""
        return self.base_url if self.sandbox is None else f"the sandbox (seed {self.sandbox.seed})"


def connect(service: Service) -> Connection:
    """Return the connection of the options: each value from its option, the profile or the environment."""
    if (options := service.embedded) is not None:
        embedded = later("sandbox", "build")(options)
        return Connection(
            settings=_settings({}, "-c", service.settings), sandbox=embedded, account="sandbox"
        )
    name, profile = chosen_profile(service)
    if name is None:
        values: dict[str, Any] = {
            one: os.environ.get(f"SEOREP_{one.upper()}") for one in ("base_url", "api_key")
        }
        key, sources = (
            Secret.of(values.pop("api_key")),
            {"base_url": "SEOREP_BASE_URL", "key": "SEOREP_API_KEY"},
        )
    else:
        values, sources = (
            {**profile},
            {one: f"{one} of profile {name}" for one in ("base_url", "key", *profile)},
        )
        key, sources["key"] = _key(profile, name), sources.get("key_command", sources["key"])
    if service.base_url is not None:
        values["base_url"], sources["base_url"] = service.base_url, "--base-url"
    needed = {"base_url": values.get("base_url"), "key": key}
    if missing := [sources[one] for one, value in needed.items() if not str(value or "").strip()]:
        raise UsageError(
            f"{' and '.join(missing)} must be set; or run `seorep login`, or try --sandbox."
        )
    return Connection(
        base_url=values["base_url"],
        api_key=key,
        account=values.get("account"),
        settings=_settings(profile, f"profile {name}", service.settings),
        sources=sources | dict.fromkeys(service.settings, "-c"),
        profile=name,
    )


def config_file() -> Path:
    """Return the file of the profiles."""
    folder = os.environ.get("XDG_CONFIG_HOME") or (
        os.environ.get("APPDATA") if sys.platform == "win32" else None
    )
    try:
        return Path(folder or Path.home() / ".config", "seorep", "config.toml")
    except RuntimeError:  # no HOME, and a user id without a name
        raise UsageError(
            "there is no home folder for profiles: set HOME or XDG_CONFIG_HOME."
        ) from None


def profiles(*, every: bool = False) -> dict[str, Any]:
    """Return the profiles of the file, or `every` value; who can change it chooses where the key is sent."""
    file = config_file()
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:  # a pipe would block
            raise OSError(f"it is not a regular file of at most {_MOST_BYTES >> 10} KiB")
        found = tomllib.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        why: object = "a number in it is too long, or it is nested too deeply"
        if isinstance(error, UnicodeDecodeError):
            why = "it is not UTF-8"
        elif isinstance(error, OSError | tomllib.TOMLDecodeError):
            why = getattr(error, "strerror", None) or error
        raise UsageError(f"can't read {file}: {why}.") from None
    held = {name: profile for name, profile in found.items() if isinstance(profile, dict)}
    if sys.platform != "win32":  # it has access lists instead
        readers = (
            stat.S_IRGRP | stat.S_IROTH if any("key" in profile for profile in held.values()) else 0
        )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH | readers) or status.st_uid not in (
            os.getuid(),
            0,
        ):
            advice = f"make it yours alone: chmod 600 {shlex.quote(str(file))}"
            raise UsageError(f"others can read or change {file}; {advice}")
    return found if every else held


def chosen_profile(service: Service) -> tuple[str | None, Mapping[str, Any]]:
    """Return the profile's name and values: the one that is named, else `default` where nothing names a service."""
    name = os.environ.get("SEOREP_PROFILE") or None if service.profile is None else service.profile
    if name is None:
        if (
            service.base_url is not None
            or os.environ.get("SEOREP_BASE_URL")
            or DEFAULT not in profiles()
        ):
            return None, {}
        name = DEFAULT
    known = profiles()
    if name not in known:
        has = f"it has: {', '.join(known) or 'none'}.{near(name, known)} `seorep login NAME` makes one."
        raise UsageError(f"there is no profile {name!r} in {config_file()}; {has}")
    _refuse_unknown(known[name], f"profile {name}", (*_OWN, *_DEFAULTS))
    return name, known[name]


def _key(profile: Mapping[str, Any], name: str) -> Secret:
    if ("key" in profile) == ("key_command" in profile):
        raise UsageError(f"profile {name}: set either key_command or key.")
    if not isinstance(profile.get("key", ""), str):
        raise UsageError(f"profile {name}: key must be a string.")
    return (
        Secret.of(profile["key"]) if "key" in profile else _key_of_command(profile["key_command"])
    )


def _key_of_command(command: object) -> Secret:
    """Return the first line that a command prints; a UsageError says why there is none."""
    # the command may ask a person for a passphrase; without one, nobody answers, and its messages may hold the key
    person = sys.stderr is not None and sys.stderr.isatty()
    seconds, theirs = (
        (PASSPHRASE_SECONDS, None) if person else (COMMAND_SECONDS, subprocess.DEVNULL)
    )
    try:
        words = shlex.split(command) if isinstance(command, str) else command
        if (
            not isinstance(words, list)
            or not words
            or not all(isinstance(word, str) for word in words)
        ):
            raise UsageError("key_command must be a string, or a list of strings, and not empty.")
        running = subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)  # noqa: S603
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"key_command can't be run: {why}; it is run without a shell.") from None

    def drain() -> None:  # closed early or full, the pipe would end or stop the command
        with running.stdout as pipe, open(os.devnull, "wb") as nowhere:  # type: ignore[union-attr]  # it is a pipe
            shutil.copyfileobj(pipe, nowhere)

    def read() -> tuple[
        bytes, int
    ]:  # a process that the command leaves behind may hold the pipe for ever
        line = running.stdout.readline(_MOST_KEY_BYTES)  # type: ignore[union-attr]
        threading.Thread(target=drain, daemon=True).start()
        return line, running.wait()

    try:
        line, code = wait_for(asyncio.wait_for(in_daemon_thread(read), seconds))
    except TimeoutError:
        raise UsageError(f"key_command took longer than {seconds:g} seconds.") from None
    finally:
        running.kill()
        running.wait()
    if code:
        raise UsageError(f"key_command failed with exit status {code}; it is run without a shell.")
    key = Secret(line.rstrip(b"\r\n").decode("utf-8-sig", "replace"))
    if not key.strip() or "\N{REPLACEMENT CHARACTER}" in key:
        raise UsageError(
            f"key_command gives no key: it printed {'what is not UTF-8' if key.strip() else 'nothing'}."
        )
    return key


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
        problem = error.message.replace(", or None", ', or "none"').replace(
            "True or False", "true or false"
        )
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
        known = [member.value for member in type(default)]
        if value not in known:
            raise ConfigurationError(
                f"{name} must be one of {', '.join(known)}, got {shown(value)}", argument=name
            )
        return type(default)(value)
    if name == "engine_names":
        names = str(value).split(",")
        if len(names) != len(_ENGINES):
            problem = (
                f"{name} must be three names for engineA, engineB and wmt, such as goo,bin,wmt"
            )
            raise ConfigurationError(problem, argument=name)
        return EngineNames(**dict(zip(_ENGINES, names, strict=True)))
    return None if value == "none" else value


def login(name: Annotated[str, Opt(metavar="NAME")] = DEFAULT, /) -> None:
    """Ask for address and key, try them, and store them as a profile.

    Without a NAME it is the profile default, which is used where nothing else is named.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name := name or DEFAULT):
        raise UsageError(f"NAME must be letters, digits, - and _, got {name!r}.")
    file = config_file()
    if name in profiles(every=True):
        raise UsageError(
            f"there is {name!r} in {file} already; change it there, or choose another name."
        )
    if not can_ask():
        raise UsageError(
            "there is no terminal to ask for address and key; set SEOREP_BASE_URL and SEOREP_API_KEY."
        )
    base_url = click.prompt("Address of the service (https://…)", err=True).strip()
    if refused := base_url_problem(base_url, allow_insecure_http=False):
        raise UsageError(refused[0].replace("base_url", "the address"))
    if not (
        key := Secret(click.prompt("API key (it is not shown)", hide_input=True, err=True).strip())
    ):
        raise UsageError("the key must not be empty.")
    given = Connection(
        base_url=base_url,
        api_key=key,
        settings=Settings(max_attempts=2),
        sources={"key": "the key"},
    )
    campaigns = wait_for(_tried(given))
    lines = f"[{name}]\nbase_url = {json.dumps(base_url)}\nkey = {json.dumps(key, ensure_ascii=False)}\n"
    try:
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        with open(file, "a", encoding="utf-8", opener=partial(os.open, mode=0o600)) as opened:
            if sys.platform != "win32":
                os.fchmod(opened.fileno(), 0o600)
            opened.write("\n\n" * (opened.tell() > 0) + lines)
    except OSError as error:
        raise UsageError(f"can't write {file}: {error.strerror or error}.") from None
    option = "" if name == DEFAULT else f" --profile {name}"
    messages().print(
        f"The key is good for {campaigns}. Stored in {file}; try: seorep pull{option} --dry-run"
    )


async def _tried(connection: Connection) -> str:
    async with connection.opened() as client:
        page = await client.campaigns.list(limit=1).page(1)
    return (
        "your campaigns" if page.total_records is None else counted(page.total_records, "campaign")
    )
