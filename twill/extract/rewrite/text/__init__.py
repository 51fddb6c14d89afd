"""Reading and editing a module's text: who makes a value, types, layouts, sums of indices."""
