"""Joint software pipelining and warp specialization: engines that decide one interval each, and the search
over intervals."""
