"""The cleanup of a builder: surplus builds and uploads, files and external objects without a record."""
