"""The service, key and settings of a command, from its options, a profile or the environment."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.cli.errors import UsageError, reason
from seorep_async.cli.options import Service, import_object
from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError
from seorep_async.profiles import Access, find_access, refuse_unknown
from seorep_async.secret import Secret
from seorep_async.settings import Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox


@attrs.frozen(kw_only=True)
class Connection:
    """A service or an embedded sandbox, and the access to it.

    Attributes:
        access: address, key and account of the service; a sandbox has its own address and key.
        sandbox: the embedded sandbox, which runs while the client is open, or None.
    """

    access: Access
    settings: Settings
    sandbox: Sandbox | None = None

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncGenerator[SeoRepClient]:
        """Open a client, with some settings replaced, and run the sandbox while it is open.

        Raises:
            UsageError: the address, the key or the account's name can't be used.
        """
        async with AsyncExitStack() as running:
            # a sandbox has an address only while it is running
            base_url: Any = self.access.base_url
            api_key = self.access.api_key
            if self.sandbox is not None:
                service = await import_object("sandbox", "start_embedded")(self.sandbox, running)
                base_url = service.base_url
                api_key = Secret(service.api_key)
            try:
                client = SeoRepClient(
                    base_url,
                    api_key,
                    settings=attrs.evolve(self.settings, **settings),
                    account=self.access.account,  # type: ignore[arg-type]  # the client checks it
                )
            except ConfigurationError as error:
                source = self.access.sources.get(error.argument or "", "")
                raise UsageError(reason(error, source)) from None
            yield await running.enter_async_context(client)

    @property
    def label(self) -> str:
        """The name of the service in a summary."""
        if self.sandbox is not None:
            return f"the sandbox (seed {self.sandbox.seed})"
        return str(self.access.base_url)


def connect(service: Service) -> Connection:
    """Return the connection that a command's options select.

    Raises:
        ConfigurationError: no service was found, its profile can't be used, or `-c` names an
            unknown setting.
        UsageError: a setting has a wrong value, or an option of `-s` is wrong.
    """
    sandbox_options = service.embedded
    if sandbox_options is None:
        sandbox = None
        access = find_access(
            service.base_url, profile=service.profile, otherwise="or try --sandbox"
        )
        if service.base_url is not None:
            access = replace(access, sources={**access.sources, "base_url": "--base-url"})
    else:
        sandbox = import_object("sandbox", "build_embedded")(sandbox_options)
        access = Access(base_url="", api_key=Secret(), account="sandbox")
    access = _with_settings(access, service.settings)
    try:
        settings = access.make_settings()
    except ConfigurationError as error:
        # the message already names its source: a profile's line, or -c
        raise UsageError(error.message) from None
    return Connection(access=access, settings=settings, sandbox=sandbox)


def _with_settings(access: Access, options: Mapping[str, str]) -> Access:
    """Replace the profile's values with the values of `-c NAME=VALUE`."""
    refuse_unknown(options, attrs.fields_dict(Settings), "-c")
    values = {name: _toml_value(value) for name, value in options.items()}
    sources = {name: f"-c {name}" for name in options}
    return replace(
        access, settings={**access.settings, **values}, sources={**access.sources, **sources}
    )


def _toml_value(text: str) -> object:
    """Read a value in TOML, as in a profile. Text that is not TOML is taken as it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
