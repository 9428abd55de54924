"""Tests the tests: changes the product in one place, and looks which test fails. Run as ``tools/mutants``."""
