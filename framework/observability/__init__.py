"""What runs tell other systems while they work: traces and lineage events, where a receiver is configured."""
