"""Tables, figures and the report page, made from finished runs."""
