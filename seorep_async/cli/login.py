"""`seorep login`: ask for an address and a key, try them, and store them as a profile."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click

from seorep_async.cli.connection import Connection
from seorep_async.cli.errors import UsageError
from seorep_async.cli.output import can_ask, messages
from seorep_async.cli.running import wait_for
from seorep_async.errors import AuthenticationError, counted, one_line
from seorep_async.profiles import (
    API_KEY,
    BASE_URL,
    DEFAULT_PROFILE,
    access_of,
    config_file,
    stored_profiles,
)
from seorep_async.secret import Secret
from seorep_async.session import base_url_problem


def log_in(name: str | None) -> None:
    """Ask for address and key, try them, and store them as a profile."""
    name = name or DEFAULT_PROFILE
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        raise UsageError(f"NAME must be letters, digits, - and _, got {name!r}.")
    file = config_file()
    stored_profile = stored_profiles().get(name, {})
    if not can_ask():
        raise UsageError(
            "there is no terminal to ask for address and key; set SEOREP_BASE_URL and "
            "SEOREP_API_KEY."
        )
    if stored_profile:
        question = (
            f"There is a profile {name} in {one_line(str(file))}. Replace its address and key?"
        )
        if not click.confirm(question, err=True):
            messages().print("Nothing was changed; seorep login NAME stores another profile.")
            return
    allows_http = stored_profile.get("allow_insecure_http") is True
    base_url = _ask_for_address(allow_insecure_http=allows_http)
    key, campaigns = _ask_for_key_that_works(name, {**stored_profile, "base_url": base_url})
    _store(file, name, {"base_url": base_url, "key": key})
    option = "" if name == DEFAULT_PROFILE else f" --profile {name}"
    next_step = one_line(f"Stored in {file}; try: seorep pull{option} --dry-run")
    messages().print(f"The key can read {campaigns}. {next_step}")
    if "account" not in stored_profile and name == DEFAULT_PROFILE:
        messages().print(
            'Files name the account after its host. In the profile, a line account = "…" changes '
            'that, and a line report_engines = "Google, Bing" names the engines.'
        )
    if BASE_URL in os.environ or API_KEY in os.environ:
        messages().print(f"{BASE_URL} and {API_KEY} override the profile: unset them first.")


def _ask_for_address(*, allow_insecure_http: bool) -> str:
    """Ask until the reply is an address that the client accepts."""
    while True:
        address: str = _prompt("Address of the service (https://…)")
        problem_and_advice = base_url_problem(address, allow_insecure_http=allow_insecure_http)
        if problem_and_advice is None:
            return address
        problem, _ = problem_and_advice
        problem = problem.replace("base_url", "the address")
        messages().print(f"Error: {one_line(problem)}")


def _ask_for_key_that_works(name: str, profile: Mapping[str, object]) -> tuple[Secret, str]:
    """Ask until the service accepts the key. Return it, and its campaigns in words."""
    while True:
        key = Secret(_prompt("API key (it is not shown)", hide_input=True))
        if not key:
            messages().print("Error: the key must not be empty.")
            continue
        access = access_of(name, {**profile, "key": key})
        # errors name the source of a value, and these two were typed
        access = replace(
            access, sources={**access.sources, "base_url": "the address", "api_key": "the key"}
        )
        # with the profile's settings, because the service may be reachable only through its proxy
        settings = attrs.evolve(access.make_settings(), max_attempts=2)
        try:
            # this request tests the key
            campaigns = wait_for(_count_campaigns(Connection(access=access, settings=settings)))
        except AuthenticationError as error:
            messages().print(f"Error: {error.message}; check the key, and type it again.")
        else:
            return key, campaigns


def _prompt(question: str, *, hide_input: bool = False) -> str:
    """Ask a question on the terminal, and return the reply."""
    try:
        reply: str = click.prompt(question, hide_input=hide_input, err=True)
        # some terminals give bytes that are not UTF-8 as surrogates
        reply.encode()
        return reply.strip()
    except UnicodeError:
        reply = ""
    # The reply may be a key, so it is dropped. The UnicodeError contains it as well, so the
    # UsageError must not have that error as its context.
    raise UsageError("the reply is not UTF-8; check the terminal's encoding, and try again.")


async def _count_campaigns(connection: Connection) -> str:
    """Return the number of campaigns that the key can read, in words."""
    async with connection.opened() as client:
        page = await client.campaigns.list(limit=1).page(1)
    if page.total_records is None:
        return "your campaigns"
    return counted(page.total_records, "campaign")


def _store(file: Path, name: str, values: Mapping[str, str]) -> None:
    """Write an address and a key into the file, and let only this user read it."""
    # a link to a file elsewhere stays a link
    target = Path(os.path.realpath(file))
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        # it contains keys, which a traceback with local variables must not show
        text = Secret(target.read_text("utf-8-sig") if target.exists() else "")
        edited = with_values(text, name, values)
        if edited is None:
            problem = f"can't find the lines of {name!r} in {file}"
            raise UsageError(f"{problem}; change them there, or choose another name.")
        try:
            # created with this mode: a later chmod would leave it readable for a moment
            opener = partial(os.open, mode=0o600)
            with open(temporary, "x", encoding="utf-8", newline="\n", opener=opener) as stream:
                stream.write(edited)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"can't write {file}: {error.strerror or error}.") from None


def with_values(text: str, name: str, values: Mapping[str, str]) -> Secret | None:
    """Return the text of a file of profiles with these values in one profile, which may be new.

    TOML has many ways to write a table, and only the usual one is edited. It has a line `[name]`,
    and one line for each value. Return None if the edited text doesn't have the new values.
    """
    profiles = _tables_of(text)
    if name not in profiles:
        text = f"{text.rstrip()}\n\n[{name}]\n".lstrip()
    header = re.compile(rf"\s*\[\s*{re.escape(name)}\s*\]\s*(#.*)?")
    is_inside = False
    lines = []
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            is_inside = header.fullmatch(line) is not None
            lines.append(line)
            if is_inside:
                lines += [f"{field} = {toml_string(value)}" for field, value in values.items()]
            continue
        is_replaced = is_inside and line.split("=")[0].strip() in values
        if not is_replaced:
            lines.append(line)
    edited = Secret("\n".join(lines))
    profile = profiles.setdefault(name, {})
    if not isinstance(profile, dict):
        return None
    profile.update(values)
    return edited if _tables_of(edited) == profiles else None


def _tables_of(text: str) -> dict[str, Any]:
    """Read a file of profiles. A file that is not TOML has no tables."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def toml_string(text: str) -> str:
    """Write a text as a basic string of TOML.

    JSON would write a character beyond U+FFFF as two surrogates, which TOML refuses.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(
        character if character.isprintable() else f"\\U{ord(character):08X}"
        for character in escaped
    )
    return f'"{printable}"'
