"""What a builder removes: superfluous builds and uploads, files and external objects without a record."""
