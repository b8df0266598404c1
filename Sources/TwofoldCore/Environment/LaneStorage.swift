/// The lanes of one batch, one behind the other in memory of their own.
///
/// This is the room for unsafe access to lanes. `@unchecked Sendable` because the environment that owns
/// it is called by one caller at a time, and within a call workers have disjoint ranges of lanes.
final class LaneStorage<Lane: Sendable>: @unchecked Sendable {
    private let lanes: UnsafeMutableBufferPointer<Lane>

    init(count: Int, repeating lane: Lane) {
        lanes = .allocate(capacity: count)
        lanes.initialize(repeating: lane)
    }

    deinit {
        lanes.deinitialize()
        lanes.deallocate()
    }

    @inline(__always)
    subscript(lane: Int) -> Lane {
        get { lanes[lane] }
        set { lanes[lane] = newValue }
    }
}
