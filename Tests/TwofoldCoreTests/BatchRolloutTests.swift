import Testing

@testable import TwofoldCore

/// Tests rollouts. On every engine, a rollout must equal a loop of separate steps.
@Suite struct BatchRolloutTests {
    @Test(arguments: [AutoresetMode.nextStep, .sameStep, .disabled])
    func `a rollout equals single steps with the same actions`(_ autoreset: AutoresetMode) throws {
        let lanes = 70
        let player = try Player(makeBoards(lanes: lanes, autoreset: autoreset, limit: 40), seed: 3)
        let results = try player.play(RandomPolicy(), steps: 200, infos: ["score", "episode_length"])
        let actions = results.arrays["action"]!
        let twin = TestBatch(try makeBoards(lanes: lanes, autoreset: autoreset, limit: 40))
        try twin.reset(seed: 3)
        var finished = [Bool](repeating: false, count: lanes)
        var steps = 0
        for step in 0..<results.steps {
            #expect(results.row("observation", step) == twin.bytes("observation"))
            #expect(results.row("action_mask", step) == twin.bytes("action_mask"))
            let valid = results.row("valid", step)
            #expect(valid == finished.map { $0 ? 0 : 1 })
            guard autoreset != .disabled || !finished.contains(true) else { break }
            steps += 1
            try twin.step(Array(actions[step * lanes..<(step + 1) * lanes]))
            for name in ["reward", "terminated", "truncated", "score", "episode_length"] {
                #expect(
                    autoreset == .sameStep && name != "reward" && name != "terminated" && name != "truncated"
                        || results.row(name, step) == twin.bytes(name))
            }
            let ended = twin.endedLanes
            switch autoreset {
            case .nextStep: finished = (0..<lanes).map { ended.contains($0) }
            case .disabled: for lane in ended { finished[lane] = true }
            case .sameStep: break  // The twin's step has already started the new episodes.
            }
        }
        #expect(steps > 20)
        if autoreset == .sameStep {
            #expect(results.finals["steps"]!.count >= 8 * 2 * lanes, "too few episodes have ended")
        }
    }

    @Test func `with autoreset disabled a finished lane waits and repeats its last state`() throws {
        for engine in [Engine.automatic, .reference] {
            for config in [
                Game2048.Config(), Game2048.Config(goal: 32, stopAtGoal: true),
                Game2048.Config(illegalAction: .terminate),
            ] {
                let lanes = 66
                let player = try Player(
                    makeBoards(config, lanes: lanes, autoreset: .disabled, limit: 150, engine: engine))
                // Actions 0, 1, 2, 3, 0 …
                let actions = (0..<lanes * 400).map { UInt8($0 / lanes % 4) }
                let results = try actions.withUnsafeBytes {
                    try player.play(.actions($0), steps: 400, infos: ["score", "moves"])
                }
                var ended = [Int?](repeating: nil, count: lanes)
                for step in 0..<400 {
                    let (valid, terminated) = (
                        results.row("valid", step), results.row("terminated", step)
                    )
                    let truncated = results.row("truncated", step)
                    for lane in 0..<lanes {
                        #expect(valid[lane] == (ended[lane] == nil ? 1 : 0))
                        guard let last = ended[lane] else {
                            if terminated[lane] | truncated[lane] == 1 { ended[lane] = step }
                            continue
                        }
                        #expect(terminated[lane] == 0 && truncated[lane] == 0)
                        for name in ["observation", "action_mask"] {
                            #expect(
                                results.cell(name, step + 1, lane)
                                    == results.cell(name, last + 1, lane))
                        }
                        for name in ["score", "moves"] {
                            #expect(
                                results.cell(name, step, lane)
                                    == results.cell(name, last, lane))
                        }
                        #expect(results.cell("reward", step, lane) == [0, 0, 0, 0])
                    }
                }
                #expect(ended.allSatisfy { $0 != nil })
            }
        }
    }

    @Test(arguments: [AutoresetMode.nextStep, .sameStep, .disabled])
    func `a rollout doesn't depend on engine, lanes, threads or pieces`(_ autoreset: AutoresetMode) throws {
        let lanes = 130
        func whole(_ threads: Int, _ engine: Engine) throws -> Player.Results {
            let environment = try makeBoards(
                lanes: lanes, autoreset: autoreset, limit: 70, threads: threads, engine: engine)
            return try Player(environment, seed: 11).play(RandomPolicy(), steps: 90)
        }
        let results = try whole(1, .reference)
        #expect(try whole(2, .automatic) == results)
        #expect(try whole(1, .baseline) == results)
        // Play lane 7 alone, once in one rollout and once in three.
        let single = try Player(makeBoards(lanes: 1, autoreset: autoreset, limit: 70), seed: 18)
        var actions: [UInt8] = []
        for steps in [1, 30, 59] {
            actions += try single.play(RandomPolicy(), steps: steps).arrays["action"]!
        }
        #expect(actions == (0..<90).map { results.arrays["action"]![$0 * lanes + 7] })
    }

    @Test func `given actions are checked before the first step`() throws {
        let player = try Player(makeBoards(lanes: 3))
        let before = try player.play(RandomPolicy(), steps: 1).arrays["observation"]!.suffix(48)
        let actions: [UInt8] = [0, 1, 2, 3, 0, 4]
        actions.withUnsafeBytes { bytes in
            let error = #expect(throws: EnvironmentError.self) { try player.play(.actions(bytes), steps: 2) }
            #expect(error?.field == "actions" && error?.lane == 2)
            #expect(error?.message.contains("step 1") == true)
        }
        #expect(try player.play(RandomPolicy(), steps: 1).arrays["observation"]!.prefix(48) == before)
    }

    @Test(arguments: ["nonsense", "observation", "reward", "action", "valid", ""])
    func `an unknown info is refused`(name: String) throws {
        let environment = try makeBoards(lanes: 1)
        let error = #expect(throws: EnvironmentError.self) {
            _ = try BatchRollout(environment, infos: ["score", name])
        }
        #expect(error?.field == "infos")
        #expect(throws: EnvironmentError.self) {
            _ = try BatchRollout(environment, infos: ["score", "score"])
        }
    }

    @Test func `a rollout can play the toy game`() throws {
        for lanes in [1, 64, 70] {
            let player = try Player(Batch(ToyGame(), BatchOptions(lanes: lanes)))
            let policy: any Policy = lanes == 64 ? FixedOrderPolicy() : RandomPolicy()
            let results = try player.play(policy, steps: 50)
            let actions = player.environment.actions.count
            for (index, action) in results.arrays["action"]!.enumerated() {
                let mask = results.arrays["action_mask"]![index * actions..<(index + 1) * actions]
                #expect(!mask.contains(1) || mask[mask.startIndex + Int(action)] == 1)
            }
        }
    }
}
