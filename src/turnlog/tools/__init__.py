"""Tools from typed functions, and the pipeline every call passes."""
