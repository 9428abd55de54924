"""Completion asked as a shell asks it."""

from __future__ import annotations

from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.cli.shells import completing


def offered(line: str, shell: str = "fish", **more: str) -> list[str]:
    """The values that are offered at the end of a line; raises nothing, says nothing else."""
    completing.use()
    environment = {completing.VARIABLE: f"{shell}_complete", completing.LINE: f"nodepool-ocb {line}", **more}
    answer = CliRunner().invoke(cli, [], prog_name="nodepool-ocb", env=environment)
    assert (answer.exit_code, answer.stderr) == (0, "")
    return [each.split("\t")[1] for each in answer.stdout.splitlines() if each]
