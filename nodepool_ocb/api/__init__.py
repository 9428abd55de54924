"""The server of the HTTP API: it turns requests into operations, and their answers into JSON."""
