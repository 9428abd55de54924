"""The views of the parts that install machines from the network."""
