"""Virtual machines and networks that a test makes: they boot from the network, and nothing of them remains."""
