"""Parts of the network: encoder, encoder-decoder, attention, positions, loss."""
