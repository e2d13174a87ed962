"""Passwords, which are asked for or read from stdin, and are never arguments: others see those in the process list."""

from __future__ import annotations

import sys

import click

from seorep_async.resources.arguments import Secret

_MOST_BYTES = 64 * 1024


def can_ask() -> bool:
    """Tell whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask_for_password() -> Secret:
    """Ask for a password twice, without showing it.

    Raises:
        click.UsageError: there is no terminal to ask on.
        click.Abort: the person had enough.
    """
    if not can_ask():
        raise click.UsageError("there is no terminal to ask for the password on; give it with --password-stdin.")
    return Secret(click.prompt("Password", hide_input=True, confirmation_prompt="The same again", err=True))


def read_password() -> Secret:
    """Read a password from stdin: one line, whose end does not belong to it.

    Raises:
        click.UsageError: stdin is a terminal, or holds something else; the message does not show it.
    """
    if can_ask():
        raise click.UsageError("--password-stdin: stdin is a terminal, which would show it; pipe it in.")
    read = b"" if sys.stdin is None else sys.stdin.buffer.read(_MOST_BYTES + 1)
    line = read.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise click.UsageError("--password-stdin: there is no password on stdin.")
    if len(read) > _MOST_BYTES or b"\n" in line or b"\r" in line:
        raise click.UsageError("--password-stdin: there is more than one line on stdin.")
    try:
        return Secret(line.decode())
    except UnicodeDecodeError:
        problem = "--password-stdin: the password is not UTF-8 text."
    raise click.UsageError(problem)  # not from the error, which holds the password
