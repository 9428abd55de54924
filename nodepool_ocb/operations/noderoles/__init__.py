"""Operations of noderoles: list, explain, commit, retry, set, check, unbind, log."""
