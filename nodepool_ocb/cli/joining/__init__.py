"""The commands for machines that join: registrations, rules of adoption, and the facts of machines."""
