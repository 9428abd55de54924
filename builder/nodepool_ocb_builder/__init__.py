"""The builder daemon: to come. builder/README.md says what it will be."""
