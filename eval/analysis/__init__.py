"""Why a model transfers: what its layers know of languages and of meaning, beside random weights."""
