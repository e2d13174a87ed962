"""The user's names for engine A and engine B, from an option, a variable or a profile."""

from __future__ import annotations

from seorep_async.cli.errors import UsageError, explain
from seorep_async.cli.output import messages
from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.profiles import ReportEngines, report_engines
from seorep_async.resources.arguments import check_engine_names


def find_engine_names(
    option_value: str | None = None, profile: str | None = None
) -> tuple[str, str] | None:
    """Return the names of engine A and engine B; None if nothing names them.

    Raises:
        UsageError: the value does not contain two names.
        ConfigurationError: the profile or its file can't be used.
    """
    if option_value is None:
        engines = report_engines(profile)
    else:
        engines = ReportEngines.of(option_value, "--engines")
    if engines is None:
        return None
    try:
        return check_engine_names(engines.names)
    except ConfigurationError:
        raise UsageError(
            f"{engines.source} must be the names of engine A and engine B, separated by a comma, "
            f"such as 'Google, Bing', got {short_repr(engines.names)}"
        ) from None


def known_engine_names(
    option_value: str | None = None, profile: str | None = None
) -> tuple[str, str] | None:
    """Return the names of the engines; None if nothing names them.

    If a profile can't be read, print a note.
    """
    try:
        return find_engine_names(option_value, profile)
    except ConfigurationError as error:
        messages().print(f"Note: the names of the engines are unknown: {explain(error)}")
        # The command may still work: a database needs no profile, and for a service, the
        # environment may have the address and the key.
        return None
