"""The verbs of machines that join: registrations, rules of adoption, and the nodes that are made of machines."""
