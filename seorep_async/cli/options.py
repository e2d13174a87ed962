"""The options of several commands: which service, and the format of stdout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import click

from seorep_async.cli.parameters import Opt, name_and_value

Format = Literal["table", "json", "jsonl", "csv"]
_SERVICE = "Service"


@dataclass(frozen=True)
class Output:
    """The format of stdout.

    Args:
        format: table for people; json, jsonl or csv for programs.  [default: table]
        json: The same as --format json.
    """

    format: Annotated[Format | None, Opt(section="Output")] = None
    json: Annotated[bool, Opt(section="Output")] = False

    def __post_init__(self) -> None:
        if self.json and self.format not in (None, "json"):
            raise click.UsageError(f"--json and --format {self.format} can't be combined.")

    @property
    def kind(self) -> Format:
        """The format in force."""
        return "json" if self.json else self.format or "table"


@dataclass(frozen=True)
class Service:
    """Which service, with which settings.

    Args:
        profile: Profile of the configuration file, in place of SEOREP_BASE_URL and SEOREP_API_KEY.
            [env var: SEOREP_PROFILE]
        base_url: Address of the service.  [env var: SEOREP_BASE_URL]
        config: A setting, such as requests_per_second=5; repeatable.
        sandbox: An embedded sandbox in place of the service; it needs no key.
        sandbox_option: An option of `seorep sandbox`, such as faults=500s=3% or forbidden=3; implies --sandbox;
            repeatable.
    """

    profile: Annotated[str | None, Opt(section=_SERVICE, metavar="NAME", env="SEOREP_PROFILE")] = None
    base_url: Annotated[str | None, Opt(section=_SERVICE, metavar="URL")] = None
    config: Annotated[list[str] | None, Opt("-c --config", _SERVICE, "NAME=VALUE", name_and_value)] = None
    sandbox: Annotated[bool, Opt(section=_SERVICE)] = False
    sandbox_option: Annotated[list[str] | None, Opt("-s --sandbox-option", _SERVICE, "NAME=VALUE", name_and_value)] = (
        None
    )
    api_key: Annotated[str | None, Opt("--api-key --key", hidden=True)] = None

    def __post_init__(self) -> None:
        if self.api_key is not None:
            raise click.UsageError(
                "--api-key: everyone who lists processes can see a key in a command, and it stays in the shell's "
                "history. Set SEOREP_API_KEY, or use a profile; `seorep login` makes one."
            )

        source = click.core.ParameterSource.COMMANDLINE
        for name in ("profile", "base_url") if self.embedded is not None else ():
            if click.get_current_context().get_parameter_source(name) is source:
                raise click.UsageError(f"--{name.replace('_', '-')} and --sandbox can't be combined.")

    @property
    def settings(self) -> dict[str, str]:
        """The settings of `-c`, each given once."""
        return _once("-c", self.config)

    @property
    def embedded(self) -> dict[str, str] | None:
        """The options of the sandbox, or None if the service is not one."""
        return _once("-s", self.sandbox_option) if self.sandbox or self.sandbox_option else None


def _once(option: str, pairs: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs or ():
        name = name.replace("-", "_")
        if name in found:
            raise click.UsageError(f"{option} {name}: given twice; give it once.")
        found[name] = value
    return found
