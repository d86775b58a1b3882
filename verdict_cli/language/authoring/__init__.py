"""What the language's classes need when Python code constructs them: steps, functions, schemas and arguments."""
