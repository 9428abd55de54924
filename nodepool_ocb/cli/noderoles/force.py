"""``--force`` of the verbs that a rollout under way may refuse."""

from __future__ import annotations

import click

force_option = click.option(
    "--force", is_flag=True, help="Also noderoles that a rollout under way commits in their turn."
)
