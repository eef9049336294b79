"""Tables and models that ship with the package: limits of the filters, blocked sites, the model of boilerplate."""
