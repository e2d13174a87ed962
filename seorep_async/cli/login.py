"""`seorep login`: address and key, tried, and stored as a profile."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from typing import Annotated

import click

from seorep_async.cli.exit_codes import ExitCode, UsageError
from seorep_async.cli.output import can_ask, messages
from seorep_async.cli.parameters import Opt
from seorep_async.cli.profiles import DEFAULT, Connection, config_file, profiles
from seorep_async.cli.running import wait_for
from seorep_async.resources.arguments import Secret
from seorep_async.session.base_url import base_url_problem
from seorep_async.settings import Settings


def login(name: Annotated[str, Opt(metavar="NAME")] = DEFAULT, /) -> int:
    """Ask for address and key, try them, and store them as a profile.

    Without a NAME it is the profile default, which is used where nothing else is named.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name := name or DEFAULT):
        raise UsageError(f"NAME must be letters, digits, - and _, got {name!r}.")
    file = config_file()
    if name in profiles(every=True):
        raise UsageError(f"there is {name!r} in {file} already; change it there, or choose another name.")
    if not can_ask():
        raise UsageError("there is no terminal to ask for address and key; set SEOREP_BASE_URL and SEOREP_API_KEY.")
    base_url = click.prompt("Address of the service (https://…)", err=True).strip()
    if refused := base_url_problem(base_url, allow_insecure_http=False):
        raise UsageError(refused[0].replace("base_url", "the address"))
    key = Secret(click.prompt("API key (it is not shown)", hide_input=True, err=True).strip())
    given = Connection(base_url=base_url, api_key=key, settings=Settings(max_attempts=2), sources={"key": "the key"})
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
    messages().print(f"The key is good for {campaigns} campaigns. Stored in {file}; try: seorep pull{option} --dry-run")
    return ExitCode.OK


async def _tried(connection: Connection) -> str:
    async with connection.opened() as client:
        page = await client.campaigns.list(limit=1).page(1)
    return "your" if page.total_records is None else f"{page.total_records:,}"
