"""Operations of deployments: create, configure, propose, commit, pause, check by a schedule, delete."""
