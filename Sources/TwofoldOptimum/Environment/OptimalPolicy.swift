internal import Synchronization
public import TwofoldCore

/// The policy that plays the action with the highest value in a table of optimal values. Among actions of equal value,
/// it plays the one with the lowest number.
public final class OptimalPolicy: Policy {
    private let table: OptimumTable

    public init(_ table: OptimumTable) { self.table = table }

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        let (table, phases) = (table, view.batch.phases)
        let lost = Atomic(Int.max)
        view.batch.options.workers.run(lanes: view.lanes, nanosecondsPerLane: 50) { range, _ in
            withUnsafeTemporaryAllocation(of: Float.self, capacity: 4 * OptimumTable.block) { values in
                for first in stride(from: range.lowerBound, to: range.upperBound, by: OptimumTable.block) {
                    let lanes = first..<min(first + OptimumTable.block, range.upperBound)
                    let boards = view.observations + first &* table.problem.cells
                    table.values(
                        of: boards.assumingMemoryBound(to: UInt8.self),
                        masks: (view.masks + 4 &* first).assumingMemoryBound(to: UInt8.self),
                        count: lanes.count,
                        into: values.baseAddress!)
                    for lane in lanes {
                        let row = values.baseAddress! + 4 &* (lane &- first)
                        var best = 0
                        for action in 0..<4 {
                            // The next step ignores the action of a lane whose episode has ended.
                            if row[action].isNaN, !phases.isFinished(lane) {
                                lost.min(lane, ordering: .relaxed)
                            }
                            if row[action] > row[best] { best = action }
                        }
                        view.choose(best, lane: lane)
                    }
                }
            }
        }
        let lane = lost.load(ordering: .relaxed)
        guard lane == .max else {
            throw .precondition(
                "policy", lane: lane,
                "no game reaches the board of lane \(lane), so the table has no values for it")
        }
    }
}
