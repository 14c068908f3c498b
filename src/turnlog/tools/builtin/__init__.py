"""The built-in tools: `bash`, `read`, `write`, `edit`, `glob`, `grep`."""
