"""Values as canonical text: types, spelling and order. Pure."""
