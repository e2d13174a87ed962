"""One operation of a resource, carried out: asked for, and written out."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.interruption import run_until_interrupted
from seorep_async.cli.nouns import Noun, Operation
from seorep_async.cli.resource_formats import Format, Output, Writer
from seorep_async.cli.screen import screen
from seorep_async.cli.stdout import in_daemon, stdout_is_terminal
from seorep_async.client import SeoRepClient
from seorep_async.models import Page
from seorep_async.paging import ModelListing
from seorep_async.settings import Settings

_FEW_AHEAD = 4


@attrs.frozen(kw_only=True)
class Part:
    """Which part of a listing is wanted.

    Attributes:
        page: one page only, or None for all.
        most: stop after so many, or None.
    """

    page: int | None = None
    most: int | None = None


@attrs.frozen(kw_only=True)
class Call:
    """An operation, and how it is asked for.

    Attributes:
        noun: of what.
        operation: which.
        settings: of the client.
        arguments: of the client's method.
    """

    noun: Noun
    operation: Operation
    settings: Settings
    arguments: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def subject(self) -> str:
        """What it is about, such as `campaign 7`."""
        number = self.arguments.get("id")
        return self.noun.singular if number is None else f"{self.noun.singular} {number}"

    def ask(self) -> Any:
        """Carry it out, and return what came: a model, or None.

        Raises:
            SeoRepError: it failed.
            KeyboardInterrupt: it was interrupted.
        """
        return run_until_interrupted(self._ask())

    def list(self, output: Output, part: Part) -> None:
        """Carry a listing out, and write what comes.

        Raises:
            SeoRepError: it failed.
            KeyboardInterrupt: it was interrupted.
        """
        writer = output.many(self.noun.model)
        quiet = not output.comes_at_once and stdout_is_terminal()
        shown, total = run_until_interrupted(self._list(writer, part, quiet=quiet))
        writer.close()
        if not shown and output.kind is Format.TABLE:
            screen().print(f"No {self.noun.name}.")
        elif output.is_shown and total is not None and total > shown:
            screen().print(f"{shown:,} of {total:,} {self.noun.name}.", style="dim")

    async def _ask(self) -> Any:
        async with SeoRepClient(settings=self.settings) as client:
            with _waiting(screen()):
                return await self._made(client)

    async def _list(self, writer: Writer, part: Part, *, quiet: bool) -> tuple[int, int | None]:
        """Return how many were written, and how many there are."""
        settings = self.settings
        if part.most is not None:  # pages that nobody wants need not be fetched ahead
            settings = attrs.evolve(settings, max_concurrency=min(settings.max_concurrency, _FEW_AHEAD))
        shown, total = 0, None
        async with SeoRepClient(settings=settings) as client:
            with _waiting(screen(), hidden=quiet) as waiting:
                async with aclosing(_pages(self._made(client), part.page)) as pages:
                    async for page in pages:
                        items = page.items if part.most is None else page.items[: part.most - shown]
                        shown, total = shown + len(items), page.total_records
                        await in_daemon(partial(writer.add, items))
                        waiting(f"{shown:,} {self.noun.name}")
                        if shown == part.most:
                            break
        return shown, total

    def _made(self, client: SeoRepClient) -> Any:
        return getattr(getattr(client, self.noun.name), self.operation.verb.method)(**self.arguments)


def require_account() -> None:
    """Check that the environment names an account.

    Raises:
        click.ClickException: it does not.
    """
    missing = [name for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY") if not os.environ.get(name)]
    if missing:
        raise click.ClickException(
            f"{' and '.join(missing)} must be set in the environment; or try it with `seorep sandbox`."
        )


async def _pages(listing: ModelListing[Any], number: int | None) -> AsyncGenerator[Page[Any], None]:
    if number is not None:
        yield await listing.page(number)
        return
    async with aclosing(listing.pages()) as pages:
        async for page in pages:
            yield page


@contextmanager
def _waiting(console: Console, *, hidden: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that the service is asked, and what came so far, while the block runs."""
    if hidden or not console.is_terminal:
        yield lambda told: None
        return
    with console.status("Asking the service…") as status:
        yield lambda told: status.update(Text(f"Asking the service… {told}"))
