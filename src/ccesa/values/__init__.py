"""From models to words and back: layouts, fields, digits and the quantizer."""
