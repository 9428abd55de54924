"""Operations, answers and errors as JSON: the words between a client and an API server."""
