"""The operations on barclamps: the documents that define roles."""
