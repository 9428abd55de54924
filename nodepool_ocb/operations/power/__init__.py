"""Operations: the power of machines."""
