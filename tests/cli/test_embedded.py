"""A pull of the embedded sandbox, whose address is the same each time."""

import socket

from tests.cli.running import Seorep


def test_a_pull_of_the_sandbox_resumes(seorep: Seorep) -> None:
    assert seorep("pull", "--sandbox", "-o", "a.csv", "--max-requests", 8).code == 5
    resumed = seorep("pull", "-s", "latency=0.001", "-o", "a.csv")
    assert resumed.code == 0
    assert "Resumed    7 reports were stored already" in resumed.err


def test_an_occupied_port_does_not_stop_the_sandbox(seorep: Seorep, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert seorep("pull", "-s", "campaigns=1", "-o", "a.csv").code == 0
