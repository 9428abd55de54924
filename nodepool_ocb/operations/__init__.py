"""Operations: each verb as a typed struct with a pure decision; a performer reads, writes, journals, waits and follows."""
