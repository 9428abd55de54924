"""The history of a run as it is shown."""

from __future__ import annotations

import csv
import io

from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks.histories import InstanceRow

N1, N2 = "n1.example.com", "n2.example.com"
ROWS = [
    InstanceRow(task="deploy", node=None, state="not run", why="site@n1.example.com failed"),
    InstanceRow(
        task="site", node=N1, state="failed", queued=9.0, started=10.5, ended=12.0, exit_code=4, why='a "b", c'
    ),
    InstanceRow(task="net", node=N1, state="successful", queued=0.0, started=1.0, ended=2.0, exit_code=0, log="h:/f"),
    InstanceRow(task="net", node=N2, state="skipped", why="condition"),
]


def test_rows_are_in_the_order_in_which_they_began_and_the_rest_is_last() -> None:
    assert [(row.task, row.node) for row in histories.chosen(ROWS)] == [
        ("net", N1),
        ("site", N1),
        ("deploy", None),
        ("net", N2),
    ]


def test_rows_are_chosen_by_task_by_node_and_by_what_went_wrong() -> None:
    assert [row.task for row in histories.chosen(ROWS, failed=True)] == ["site", "deploy"]
    assert [row.node for row in histories.chosen(ROWS, ["net"])] == [N1, N2]
    assert [row.task for row in histories.chosen(ROWS, nodes=[N1])] == ["net", "site"]


def test_a_table_has_the_time_of_day_and_how_long_it_took() -> None:
    row = histories.words(ROWS[1])
    assert (row.queued, row.started, row.took) == ("00:00:09.000", "00:00:10.500", "1.5s")
    assert histories.words(ROWS[0]).took is None


def test_csv_has_every_field_and_texts_with_quotes_come_back() -> None:
    read = list(csv.DictReader(io.StringIO(histories.as_csv(ROWS))))
    assert list(read[0]) == list(InstanceRow.__struct_fields__)
    assert (read[1]["why"], read[1]["started"]) == ('a "b", c', "1970-01-01T00:00:10.500000Z")
    assert (read[0]["node"], read[0]["exit_code"]) == ("", "")
