"""What everybody may know: errors, units, bands, the record schema, whole files."""
