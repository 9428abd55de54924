"""Completion in bash, zsh and fish: the script of each shell, and the answers to it."""
