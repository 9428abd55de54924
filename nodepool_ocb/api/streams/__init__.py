"""Answers that go on: events as they happen, and logs as they grow."""
