"""Driver docker of machines: containers of uploaded images. Also the way to a container engine."""
