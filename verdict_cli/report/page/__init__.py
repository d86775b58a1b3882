"""Pages: sections of notes, tables, charts and rows, laid out as one self-contained HTML file by `page`."""
