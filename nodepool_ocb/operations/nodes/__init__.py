"""Operations of nodes: create, mark, bind, commit, hold, rename, delete."""
