// The programs of a grid in another order than that in which a GPU begins thread blocks.
#pragma once

namespace twill {

/// A block's place in the launch, or the launch's extents, along the axes of the programs: X, Y and Z are the axes of the
/// launch along which those of the programs lie. As it is where the launch has the programs' own order.
template <int X, int Y, int Z, class T>
__device__ __forceinline__ T of_programs(const T& launched, bool ordered) {
    const auto along = [&](int axis) { return axis == 0 ? launched.x : axis == 1 ? launched.y : launched.z; };
    if (!ordered) return launched;
    T found;
    found.x = along(X), found.y = along(Y), found.z = along(Z);
    return found;
}

}  // namespace twill
