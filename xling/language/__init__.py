"""From a language's name to a model that serves it: a survey of what there is, a plan of stages, and a report."""
