"""What tests, demonstrations and measurements run against: real servers on this machine, started and stopped here."""
