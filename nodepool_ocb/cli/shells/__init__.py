"""Completion in bash, zsh and fish: the script of each shell, and what it is answered."""
