"""The rules of machines that register: registrations, inventories, rules of adoption. Pure."""
