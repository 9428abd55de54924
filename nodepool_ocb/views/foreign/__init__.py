"""Documents of Fuel and of Nodepool: task lists as Fuel's JSON, and the rows of Nodepool's pages."""
