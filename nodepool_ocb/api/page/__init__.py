"""The web page of the API's server: its files, and the sessions of people who are signed in."""
