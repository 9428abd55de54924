"""Logins of people by OpenID Connect: signed tokens of an issuer, and the sign-in of the page. Loaded if it is configured."""
