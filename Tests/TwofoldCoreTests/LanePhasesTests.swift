import Testing

@testable import TwofoldCore

@Suite struct LanePhasesTests {
    /// Advances the phases of several lanes, and returns them with the step's arrays and flags.
    private func advanced(
        _ count: Int, _ autoreset: AutoresetMode, _ generator: inout Generator
    ) throws -> (before: [LanePhase], isTerminated: [Bool], isTruncated: [Bool], after: [LanePhase]) {
        var list = ArrayList()
        var infos: ToyGame.Infos?
        let keys = BatchKeys(ToyGame(), in: &list, infos: &infos)
        let memory = try ArrayMemory(list.specs, lanes: count)
        let phases = try LanePhases(BatchOptions(lanes: count, autoreset: autoreset))
        let all: [LanePhase] = [.playing, .playing, .terminated, .truncated]
        let before = (0..<count).map { _ in all[generator.next(below: 4)] }
        var (isTerminated, isTruncated): ([Bool], [Bool]) = ([], [])
        for lane in 0..<count {
            phases[lane] = before[lane]
            let flags = before[lane] == .playing ? generator.next(below: 4) : 0
            isTerminated.append(flags & 1 != 0)
            isTruncated.append(flags & 2 != 0)
            let row = memory.arrays.row(lane)
            row.store(isTerminated[lane], keys.terminated)
            row.store(isTruncated[lane], keys.truncated)
        }
        // Like a batch, advance the lanes in chunks of whole blocks.
        for first in stride(from: 0, to: count, by: 128) {
            phases.advance(first..<min(first + 128, count), in: memory.arrays, keys)
        }
        return (before, isTerminated, isTruncated, (0..<count).map { phases[$0] })
    }

    @Test(arguments: [1, 7, 16, 17, 40, 63, 64, 65, 200])
    func `a lane that terminates at the step limit counts as terminated, in any block`(count: Int) throws {
        var generator = Generator(seed: UInt64(count))
        for autoreset in [AutoresetMode.nextStep, .sameStep, .disabled] {
            for _ in 0..<20 {
                let step = try advanced(count, autoreset, &generator)
                for lane in 0..<count {
                    let isKept = autoreset == .disabled && step.before[lane] != .playing
                    let ended: LanePhase =
                        step.isTerminated[lane] ? .terminated : step.isTruncated[lane] ? .truncated : .playing
                    #expect(step.after[lane] == (isKept ? step.before[lane] : ended))
                }
            }
        }
    }
}
