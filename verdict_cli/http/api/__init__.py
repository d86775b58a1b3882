"""A judge over HTTP. Needs the extra `serve`, and is imported by `verdict serve` alone."""
