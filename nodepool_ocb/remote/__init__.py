"""Operations over HTTP: the performer of ``--api URL``, its connection, and the tokens that ``login`` stores."""
