"""N-gram language models: trained here for any language, stored as ARPA, queried through KenLM."""
