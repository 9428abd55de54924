"""``nodepool-ocb noderole``: looked at, explained, waited for, changed."""
