// A multi-buffered channel from one warp group to others: slots in shared memory, each with a full and an
// empty barrier.
//
// Sequence number n lies in slot n % Depth; the parity of its phase is n / Depth % 2. Channels that share slots count all
// their uses: number n of one of them is n * Sharers + Sharer there. Full barriers first, then empty ones.
#pragma once
#include "barrier.cuh"
#include "copy.cuh"

namespace twill {

/// What fills the slots: TMA, the stores of threads, or their asynchronous copies.
enum class Filling { tma, threads, cp_async };

/// `slots` and `barriers` are shared-window addresses; `Stride` bytes lie between slots. One thread of each
/// warp arrives for it, after __syncwarp has ordered the accesses of the other threads before its arrival. The
/// copies of every thread arrive by themselves. compute-sanitizer's racecheck does not relate one thread's
/// accesses to another thread's arrival: with TWILL_EVERY_THREAD_ARRIVES defined, every thread arrives that has
/// read a slot or written a part of it, and nothing else changes.
///
/// In a cluster of two CTAs that load tiles for each other (`Blocks` 2), the consumers of both release a slot to the
/// producers of both.
///
/// Of `Sharers` channels that share slots, this one is number `Sharer`.
template <uint32_t Depth, uint32_t Stride, Filling By = Filling::tma, uint32_t Blocks = 1, uint32_t Sharers = 1, uint32_t Sharer = 0>
struct Channel {
    uint32_t slots, barriers;

    /// Where a sequence number lies: its slot, and the parity of its phase.
    struct Position {
        uint32_t slot, parity;

        __device__ __forceinline__ Position(uint32_t n)
            : slot((n * Sharers + Sharer) % Depth), parity((n * Sharers + Sharer) / Depth % 2) {}

        /// That of the same slot when it is filled the next time.
        __device__ __forceinline__ Position next_round() const {
            static_assert(Sharers == 1, "channels that share slots skip each other's numbers");
            Position next = *this;
            next.parity ^= 1;
            return next;
        }

        /// To the next sequence number.
        __device__ __forceinline__ void advance() {
            static_assert(Sharers == 1, "channels that share slots skip each other's numbers");
            slot = slot + 1 == Depth ? 0 : slot + 1;
            parity ^= slot == 0;
        }
    };

    __device__ __forceinline__ Position position(uint32_t n) const { return n; }
    __device__ __forceinline__ uint32_t slot(Position n) const { return slots + n.slot * Stride; }
    __device__ __forceinline__ uint32_t full(Position n) const { return barriers + n.slot * 8; }
    __device__ __forceinline__ uint32_t empty(Position n) const { return barriers + (Depth + n.slot) * 8; }
    __device__ __forceinline__ void consumer_wait(Position n) const { mbarrier_wait(full(n), n.parity); }
    /// By all threads of a warp. The first round does not wait. Nothing else keeps the lanes of a warp that only issues copies
    /// by TMA together: one that looked a round too late would see the parity that it waits for as not reached, for ever.
    __device__ __forceinline__ void producer_acquire(Position n) const {
        mbarrier_wait(empty(n), n.parity ^ 1);
        if constexpr (By == Filling::tma) __syncwarp();
    }

    /// By all threads of a warp, of the producing group: it has written its part of the slot, or started its
    /// copies to it.
    __device__ __forceinline__ void producer_commit(Position n) const {
        if constexpr (By == Filling::cp_async) {
            cp_async_arrive(full(n));
        } else {
            arrive(full(n));
        }
    }

    /// By all threads of a warp: it reads the slot no more.
    __device__ __forceinline__ void consumer_release(Position n) const {
        if constexpr (Blocks == 1) {
            arrive(empty(n));
        } else {
            arrive_everywhere(empty(n));
        }
    }

    /// By the thread that issues copies by TMA: those numbered below `n`, of all that share the slots, are complete. They complete
    /// in any order, so that each slot is waited for.
    __device__ __forceinline__ void copies_wait(uint32_t n) const {
        const uint32_t end = n * Sharers;
#pragma unroll 1  // few registers
        for (uint32_t i = end < Depth ? 0 : end - Depth; i != end; ++i) mbarrier_wait(barriers + i % Depth * 8, i / Depth % 2);
    }

    /// By the producer, before its CTA exits, with the number of slots that it has filled: the consumers of the other CTA
    /// have released all of them, so nothing arrives here any more.
    __device__ __forceinline__ void producer_tail(uint32_t filled) const {
        for (uint32_t end = filled + Depth; filled != end; ++filled) producer_acquire(filled);
    }

    /// One thread, once: a phase is full after `producers` (warps, or 1 for TMA) have arrived, empty after
    /// `consumers` warps have, and MMAs `commits` times.
    __device__ __forceinline__ void init(uint32_t producers, uint32_t consumers, uint32_t commits = 0) const {
        constexpr bool all_produce = By == Filling::cp_async || (every && By == Filling::threads);
        constexpr uint32_t produced = all_produce ? 32 : 1, consumed = every ? 32 : 1;
        for (uint32_t i = 0; i < Depth; ++i) {
            mbarrier_init(barriers + i * 8, producers * produced);
            mbarrier_init(barriers + (Depth + i) * 8, Blocks * consumers * consumed + commits);
        }
    }

protected:
#ifdef TWILL_EVERY_THREAD_ARRIVES
    static constexpr bool every = true;
#else
    static constexpr bool every = false;
#endif

    __device__ __forceinline__ static void arrive(uint32_t barrier) {
        if (!every) __syncwarp();
        if (every || threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
    }

    /// On the barriers of all CTAs of the cluster, one lane for each.
    __device__ __forceinline__ static void arrive_everywhere(uint32_t barrier) {
        const uint32_t lane = threadIdx.x % 32;
        if (every) {
            for (uint32_t rank = 0; rank < Blocks; ++rank) mbarrier_arrive_behind_reads(of_block(barrier, rank));
        } else {
            __syncwarp();
            if (lane < Blocks) mbarrier_arrive_behind_reads(of_block(barrier, lane));
        }
    }
};

/// Channels that warpgroups of one group fill alternately, each with one pair of barriers of its own: number `Sharer` of
/// `Sharers` that share `Depth` slots. Number n of it is number n * Sharers + Sharer of all; the parity of its phase is n % 2.
/// Where a slot is released, the channel that fills it next may do so. All full barriers first, then the empty ones.
template <uint32_t Depth, uint32_t Stride, uint32_t Sharers, uint32_t Sharer>
struct AlternatelyFilled : Channel<Sharers, Stride, Filling::threads> {
    static_assert(Depth <= Sharers, "a warpgroup has one slot at a time");
    using Barriers = Channel<Sharers, Stride, Filling::threads>;

    struct Position {
        uint32_t slot, sharer, parity;

        __device__ __forceinline__ Position(uint32_t n, uint32_t sharer = Sharer)
            : slot((n * Sharers + sharer) % Depth), sharer(sharer), parity(n % 2) {}
    };

    __device__ __forceinline__ Position position(uint32_t n, uint32_t sharer) const { return {n, sharer}; }
    __device__ __forceinline__ uint32_t slot(Position at) const { return this->slots + at.slot * Stride; }
    __device__ __forceinline__ uint32_t full(Position at) const { return this->barriers + at.sharer * 8; }
    __device__ __forceinline__ uint32_t empty(uint32_t sharer) const { return this->barriers + (Sharers + sharer) * 8; }
    __device__ __forceinline__ void consumer_wait(Position at) const { mbarrier_wait(full(at), at.parity); }
    __device__ __forceinline__ void producer_commit(Position at) const { Barriers::arrive(full(at)); }

    /// The first fill of each slot does not wait.
    __device__ __forceinline__ void producer_acquire(Position at) const {
        mbarrier_wait(empty(at.sharer), at.parity ^ uint32_t(at.sharer < Depth));
    }

    __device__ __forceinline__ void consumer_release(Position at) const {
        Barriers::arrive(empty((at.sharer + Depth) % Sharers));
    }
};

/// A thread's coordinates in its group of warps: its number, which warpgroup's 64 rows, and which elements of
/// an accumulator it holds.
struct ThreadCoordinates {
    uint32_t warp, warpgroup, lane, index, row, column;
    bool leader;

    __device__ __forceinline__ explicit ThreadCoordinates(uint32_t first_warp) {
        warp = warp_index() - first_warp;
        warpgroup = warp / 4;
        leader = threadIdx.x == 32 * first_warp;
        compute(threadIdx.x);
    }

    /// At the beginning of a loop's body: rematerializes the coordinates, so that the compiler keeps nothing
    /// computed from them (a swizzled address for every store) in a register throughout the loop.
    __device__ __forceinline__ void rematerialize() {
        uint32_t thread;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
        compute(thread);
    }

private:
    __device__ __forceinline__ void compute(uint32_t thread) {
        lane = thread % 32;
        index = 32 * warp + lane;
        row = 16 * warp + lane / 4;
        column = 2 * (lane % 4);
    }
};

}  // namespace twill
