"""The seam to providers: requests, the chunk stream, adapters."""
