"""Reports as documents of sections, and the renderers that draw them."""
