"""Find the address, the key and the options of an account.

They come from the caller, from the environment, or from a profile that `seorep login` stored in
`~/.config/seorep/config.toml`. This module only reads: it asks no questions, prints nothing and
opens no connection.
"""

from __future__ import annotations

import enum
import os
import shlex
import stat
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError, one_line, short_repr, suggestion
from seorep_async.secret import Secret
from seorep_async.settings import EngineNames, Settings

# The environment variables.
BASE_URL = "SEOREP_BASE_URL"
API_KEY = "SEOREP_API_KEY"
PROFILE = "SEOREP_PROFILE"
REPORT_ENGINES = "SEOREP_REPORT_ENGINES"

DEFAULT_PROFILE = "default"
_ACCOUNT_FIELDS = ("base_url", "key", "account", "report_engines")
"""The fields of a profile that are not settings."""
_SECRET_FIELDS = ("key", "proxy")
_SETTINGS: Mapping[str, attrs.Attribute[Any]] = attrs.fields_dict(Settings)
_LARGEST_FILE = 1024 * 1024
"""The maximum size of the file with the profiles, in bytes."""
_SET_BOTH = f"set {BASE_URL} and {API_KEY}"


@dataclass(frozen=True, kw_only=True)
class Access:
    """An account's address, key and options, and the origin of each.

    Attributes:
        base_url: the address, not checked yet.
        api_key: the key, not checked yet.
        account: the account's name in the profile, not checked yet, or None.
        settings: the TOML values of the profile's settings, by name.
        profile: the profile's name, or None if the address and the key come from elsewhere.
        sources: where each value comes from, in words for messages, such as `SEOREP_BASE_URL` or
            `base_url of profile acme`.
    """

    base_url: object
    api_key: Secret = field(repr=False)
    account: object = None
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)
    profile: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def refusal(self, problem: str, argument: str | None) -> ConfigurationError:
        """Return the error for a wrong value, with its origin instead of the argument's name."""
        # The library's messages begin with the argument's name.
        if argument and problem.startswith(argument):
            origin = self.sources.get(argument, argument)
            problem = origin + problem.removeprefix(argument)
        return ConfigurationError(problem, argument=argument)

    def make_settings(self) -> Settings:
        """Make the settings. In TOML, a member of an enumeration is written as its value.

        Raises:
            ConfigurationError: a value is wrong; the message names its origin.
        """
        try:
            values: dict[str, Any] = {
                name: _setting_value(name, value) for name, value in self.settings.items()
            }
            return Settings(**values)
        except ConfigurationError as error:
            # The user writes these values in TOML, not in Python.
            problem = error.message.replace(", or None", ', or "none"')
            problem = problem.replace("True or False", "true or false")
            raise self.refusal(problem, error.argument) from None


def find_access(  # noqa: C901, a branch for each case of its docstring
    base_url: object = None,
    api_key: str | None = None,
    profile: str | None = None,
    *,
    otherwise: str = "or pass base_url and api_key",
) -> Access:
    """Find the address, the key and the options of an account.

    There are three cases:

    1. The caller names a `profile`: its address and key are used, whatever the environment says.
    2. The caller or the environment gives an address or a key: then both must be given, and each
       may come from either source.
    3. Nothing is given: the profile named by `SEOREP_PROFILE` is used, otherwise `default`.

    An empty variable counts as given, because a failed command such as `$(pass show acme)` leaves
    it empty. The default profile, which might belong to another account, must not be used instead.

    Args:
        base_url: the address that the caller gives, or None.
        api_key: the key that the caller gives, masked, or None.
        profile: the name of a stored profile, or None.
        otherwise: another way to supply both, which ends the error if nothing was found.

    Raises:
        ConfigurationError: nothing was found, only one of the two was found, or the profile or
            its file can't be used.
    """
    # 1. A profile. An address or a key given with it could belong to another account.
    if profile is not None:
        if base_url is not None or api_key is not None:
            name = "base_url" if base_url is not None else "api_key"
            problem = f"profile and {name}=… can't be combined"
            reason = "a profile already has an address and a key"
            raise ConfigurationError(f"{problem}: {reason}", argument="profile")
        return access_of(profile, load_profile(profile))

    # 2. An address and a key, each from the caller or otherwise from the environment.
    sources = {"base_url": "base_url", "api_key": "api_key"}
    if base_url is None and BASE_URL in os.environ:
        base_url = os.environ[BASE_URL]
        sources["base_url"] = BASE_URL
    if api_key is None and API_KEY in os.environ:
        api_key = Secret(os.environ[API_KEY])
        sources["api_key"] = API_KEY
    # 3. Neither: a stored profile.
    if base_url is None and api_key is None:
        default_name = _default_profile()
        if default_name is None:
            problem = (
                f"no address and no API key: run `seorep login` once, {_SET_BOTH}, {otherwise}"
            )
            raise ConfigurationError(problem, argument="base_url")
        return access_of(default_name, load_profile(default_name))
    # A profile never supplies the missing one, because it may belong to another account.
    if api_key is None:
        raise _half_given_error("base_url", sources, API_KEY)
    if base_url is None:
        raise _half_given_error("api_key", sources, BASE_URL)
    return Access(base_url=base_url, api_key=Secret.of(api_key), sources=sources)


def _half_given_error(
    argument: str, sources: Mapping[str, str], missing_variable: str
) -> ConfigurationError:
    """Return the error for an address without a key, or for a key without an address."""
    problem = f"{sources[argument]} is given without {missing_variable}"
    advice = "give both, or neither to use a stored profile"
    return ConfigurationError(f"{problem}: {advice}", argument=argument)


def _default_profile() -> str | None:
    """Return the name of the profile to use if the caller gives nothing, or None."""
    if PROFILE in os.environ:
        return os.environ[PROFILE]
    return DEFAULT_PROFILE if DEFAULT_PROFILE in stored_profiles() else None


def access_of(name: str, values: Mapping[str, object]) -> Access:
    """Return the access that the values of a profile describe.

    Raises:
        ConfigurationError: the address or the key is missing, or is not a string.
    """
    for field_name in ("base_url", "key"):
        value = values.get(field_name)
        if value is None or value == "":
            advice = f"run `seorep login {name}`, or add it to {config_file()}"
            raise ConfigurationError(f"profile {name} has no {field_name}: {advice}")
        if not isinstance(value, str):
            raise ConfigurationError(f"profile {name}: {field_name} must be a string")
    sources = {}
    for field_name in values:
        argument = "api_key" if field_name == "key" else field_name
        sources[argument] = f"{field_name} of profile {name}"
    return Access(
        base_url=values["base_url"],
        api_key=Secret.of(values["key"]),
        account=values.get("account"),
        settings={key: value for key, value in values.items() if key in _SETTINGS},
        profile=name,
        sources=sources,
    )


@dataclass(frozen=True)
class ReportEngines:
    """The names of the search engines for a report, and their origin.

    Attributes:
        names: not checked yet.
        source: the variable, or the line of a profile, in words for messages.
    """

    names: object
    source: str

    @classmethod
    def of(cls, value: object, source: str) -> ReportEngines:
        names = value
        if isinstance(value, str):
            names = [name.strip() for name in value.split(",")]
        return cls(names, source)


def report_engines(profile: str | None = None) -> ReportEngines | None:
    """Return the names of the search engines for a report, or None.

    They come from the `profile` that the caller names, else from `SEOREP_REPORT_ENGINES`, else from
    the profile that `find_access` would use.

    Raises:
        ConfigurationError: the profile or its file can't be used.
    """
    if profile is not None:
        value = load_profile(profile).get("report_engines")
        if value is not None:
            return ReportEngines.of(value, f"report_engines of profile {profile}")
    if os.environ.get(REPORT_ENGINES):
        return ReportEngines.of(os.environ[REPORT_ENGINES], REPORT_ENGINES)
    # If the environment names an account, it may not be the default profile's, so the engines of
    # that profile are not used.
    if profile is None and BASE_URL not in os.environ and API_KEY not in os.environ:
        default_profile = _default_profile()
        if default_profile is not None:
            return report_engines(default_profile)
    return None


def config_file() -> Path:
    """Return the path of the file with the profiles. The file need not exist.

    Raises:
        ConfigurationError: this user has no home folder.
    """
    folder = os.environ.get("XDG_CONFIG_HOME")
    if not folder and sys.platform == "win32":
        folder = os.environ.get("APPDATA")
    if not folder:
        # Without a home folder, this path stays relative, and is refused below.
        folder = str(Path(os.environ.get("HOME", os.path.expanduser("~")), ".config"))
    if not os.path.isabs(folder):
        # In another working directory, a relative path could lead to another account's profiles.
        problem = f"the folder of profiles must have an absolute path, got {short_repr(folder)}"
        raise ConfigurationError(f"{problem}: set HOME or XDG_CONFIG_HOME")
    return Path(folder, "seorep", "config.toml")


def stored_profiles() -> dict[str, Mapping[str, object]]:
    """Read the profiles, by name. A missing file counts as empty.

    Raises:
        ConfigurationError: the file can't be read, or others can read or change it.
    """
    tables, problem = _parsed(config_file())
    # Raised outside `_parsed`, because frames of the parser contain the file's text, with the key.
    if problem:
        raise ConfigurationError(problem)
    return {name: table for name, table in tables.items() if isinstance(table, Mapping)}


def _parsed(file: Path) -> tuple[dict[str, object], str]:
    """Return the file's tables and an empty string, or the problem with the file."""
    try:
        status = file.stat()
        # a pipe would block, and a device may have no end
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            problem = "it is not a regular file, or is larger than 1024 KiB"
            return {}, f"can't read {file}: {problem}"
        tables = _with_masked_secrets(tomllib.loads(file.read_text("utf-8-sig")))
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"can't read {file}: {_why_unreadable(error)}"
    has_key = any(isinstance(table, Mapping) and "key" in table for table in tables.values())
    if _others_can_use(status, has_key=has_key):
        advice = f"make it private: chmod 600 {shlex.quote(str(file))}"
        return {}, f"others can read or change {file}; {advice}"
    return tables, ""


def _with_masked_secrets(tables: dict[str, object]) -> dict[str, object]:
    """Mask the secrets of all profiles, in place."""
    for table in tables.values():
        if isinstance(table, dict):
            for name in _SECRET_FIELDS:
                if isinstance(table.get(name), str):
                    table[name] = Secret(table[name])
    return tables


def _why_unreadable(error: Exception) -> str:
    """Return the reason why the file can't be read, for a message."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if not isinstance(error, tomllib.TOMLDecodeError):
        # a ValueError of `int()`, or a RecursionError
        return "a number in it is too long, or it is nested too deeply"
    return f"{error}; write strings in quotes"


def _others_can_use(status: os.stat_result, *, has_key: bool) -> bool:
    """Return whether others can read a key, or choose where one is sent."""
    if sys.platform == "win32":
        return False  # Windows uses access lists, and a user's folder is private by default
    forbidden = stat.S_IWGRP | stat.S_IWOTH
    if has_key:
        forbidden |= stat.S_IRGRP | stat.S_IROTH
    return bool(status.st_mode & forbidden) or status.st_uid not in (os.getuid(), 0)


def load_profile(name: str) -> Mapping[str, object]:
    """Read one profile. The names of its settings are checked, but not their values.

    Raises:
        ConfigurationError: there is no such profile, a setting in it is unknown, or the file can't
            be used.
    """
    profiles = stored_profiles()
    if name not in profiles:
        names = one_line(", ".join(profiles)) or "none"
        problem = f"there is no profile {short_repr(name)} in {config_file()}; it has: {names}."
        advice = "`seorep login NAME` makes one"
        raise ConfigurationError(
            f"{problem}{suggestion(name, profiles)} {advice}", argument="profile"
        )
    profile = profiles[name]
    if "key_command" in profile:
        advice = f"delete that line, set {API_KEY} to the output of the command, and set {BASE_URL}"
        raise ConfigurationError(f"profile {name}: key_command is no longer supported; {advice}")
    refuse_unknown(profile, (*_ACCOUNT_FIELDS, *_SETTINGS), f"profile {name}")
    return profile


def refuse_unknown(names: Iterable[str], known_names: Collection[str], source: str) -> None:
    """Raise a ConfigurationError for the first unknown name."""
    for name in names:
        if name not in known_names:
            # no setting has a digit in its name, but a key in the wrong place usually has
            has_digit = any(map(str.isdigit, name))
            shown = "of that name" if has_digit else short_repr(name)
            all_names = f" The settings are {', '.join(known_names)}."
            advice = suggestion(name, known_names) or all_names
            raise ConfigurationError(f"{source}: there is no setting {shown}.{advice}")


def _setting_value(name: str, value: object) -> object:
    """Convert a TOML value to the value of a setting."""
    default = _SETTINGS[name].default
    if isinstance(default, enum.Enum):
        members = {member.value: member for member in type(default)}
        if not isinstance(value, str) or value not in members:
            problem = f"{name} must be one of {', '.join(members)}, got {short_repr(value)}"
            raise ConfigurationError(problem, argument=name)
        return members[value]
    if name == "engine_names":
        return _engine_names(value)
    # TOML has no null.
    return None if value == "none" else value


def _engine_names(value: object) -> EngineNames:
    """Read three names that are separated by commas."""
    tokens = str(value).split(",")
    fields_of_names = attrs.fields_dict(EngineNames)
    if len(tokens) != len(fields_of_names):
        problem = "engine_names must be three names for engineA, engineB and wmt"
        raise ConfigurationError(f"{problem}, such as goo,bin,wmt", argument="engine_names")
    return EngineNames(**dict(zip(fields_of_names, tokens, strict=True)))
