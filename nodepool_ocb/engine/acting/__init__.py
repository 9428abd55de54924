"""Whether an annealer may act on a noderole: annealers that are able to, extensions that they lack, back-off. Pure."""
