"""Figures of the API server: lists beside a bare handler, an idle server, and events for many clients."""
