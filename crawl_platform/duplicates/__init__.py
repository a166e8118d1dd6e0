"""Pages that say the same: candidates by simhash, verified pairs, clusters and their representatives."""
