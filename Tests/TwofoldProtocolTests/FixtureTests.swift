import Foundation
import SwiftProtobuf
import Testing
import TwofoldProtocol

/// All message types, keyed by their names in proto/.
let messageTypes: [String: any Message.Type] = Dictionary(
    uniqueKeysWithValues: ([
        Twofold_V1_Request.self, Twofold_V1_Reply.self, Twofold_V1_Error.self,
        Twofold_V1_HelloRequest.self, Twofold_V1_HelloReply.self, Twofold_V1_EnvironmentInfo.self,
        Twofold_V1_Limits.self, Twofold_V1_CreateRequest.self, Twofold_V1_CreateReply.self,
        Twofold_V1_Space.self, Twofold_V1_BoxSpace.self, Twofold_V1_DiscreteSpace.self,
        Twofold_V1_PayloadLayout.self, Twofold_V1_ArrayLayout.self, Twofold_V1_ResetRequest.self,
        Twofold_V1_ResetReply.self, Twofold_V1_StepRequest.self, Twofold_V1_StepReply.self,
        Twofold_V1_ObserveRequest.self, Twofold_V1_ObserveReply.self, Twofold_V1_AfterstatesRequest.self,
        Twofold_V1_AfterstatesReply.self, Twofold_V1_CloseRequest.self, Twofold_V1_CloseReply.self,
        Twofold_V1_RewardSpec.self, Twofold_V1_RewardTerm.self, Twofold_V1_RewardParameter.self,
        Twofold_V1_Game2048Config.self, Twofold_V1_ExpandRequest.self, Twofold_V1_ExpandReply.self,
        Twofold_V1_StatsRequest.self, Twofold_V1_StatsReply.self, Twofold_V1_Counters.self,
        Twofold_V1_Usage.self, Twofold_V1_RequestStats.self, Twofold_V1_RefusalStats.self,
        Twofold_V1_SessionStats.self, Twofold_V1_KeepaliveRequest.self, Twofold_V1_KeepaliveReply.self,
        Twofold_V1_ResumeRequest.self, Twofold_V1_ResumeReply.self, Twofold_V1_SnapshotRequest.self,
        Twofold_V1_SnapshotReply.self, Twofold_V1_RestoreRequest.self, Twofold_V1_RestoreReply.self,
        Twofold_V1_ConcentrationConfig.self, Twofold_V1_RolloutRequest.self,
        Twofold_V1_RolloutReply.self, Twofold_V1_GivenActions.self, Twofold_V1_RandomPolicy.self,
        Twofold_V1_FixedOrderPolicy.self, Twofold_V1_GreedyPolicy.self, Twofold_V1_OptimalPolicy.self,
        Twofold_V1_ExpectimaxPolicy.self,
        Twofold_V1_NTuplePolicy.self, Twofold_V1_PolicyRequest.self, Twofold_V1_PolicyReply.self,
        Twofold_V1_NTupleForm.self, Twofold_V1_NTuple.self, Twofold_V1_WeightsPiece.self,
        Twofold_V1_SavedSession.self, Twofold_V1_SavedFrames.self,
    ] as [any Message.Type]).map { ($0.protoMessageName, $0) })

/// One message of Tests/Fixtures/messages.json, which Python also reads and writes.
struct Fixture: Decodable, CustomTestStringConvertible, Sendable {
    /// The message's name in proto/.
    let type: String
    private let binary: String
    /// The message in protobuf's canonical JSON.
    let json: JSON

    var testDescription: String { type }

    /// The encoded message, which the fixture stores in hexadecimal.
    var bytes: [UInt8] {
        let digits = binary.map { UInt8($0.hexDigitValue!) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    static let all: [Fixture] = {
        let data = try! Data(contentsOf: root.appending(path: "Tests/Fixtures/messages.json"))
        return try! JSONDecoder().decode([Fixture].self, from: data)
    }()

    /// The root of the repository.
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
}

/// A JSON value of any type. A comparison distinguishes true from 1, and "1" from 1.
enum JSON: Decodable, Equatable {
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    init(from decoder: any Swift.Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let bool = try? value.decode(Bool.self) {
            self = .bool(bool)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if let string = try? value.decode(String.self) {
            self = .string(string)
        } else if let array = try? value.decode([JSON].self) {
            self = .array(array)
        } else {
            self = .object(try value.decode([String: JSON].self))
        }
    }
}

/// Tests that Swift and Python decode the same bytes to the same message.
@Suite struct FixtureTests {
    @Test func `the fixtures, the table of this test and proto have the same message types`() throws {
        let inFixtures = Set(Fixture.all.map(\.type))
        #expect(inFixtures == Set(messageTypes.keys))
        let folder = Fixture.root.appending(path: "proto/twofold/v1")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        var declared: Set<String> = []
        for file in files where file.pathExtension == "proto" {
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                guard let match = line.firstMatch(of: /^message (\w+)/) else { continue }
                declared.insert("twofold.v1.\(match.1)")
            }
        }
        #expect(declared == inFixtures)
    }

    @Test(arguments: Fixture.all)
    func `a message has the same meaning in Swift and Python`(fixture: Fixture) throws {
        let type = try #require(messageTypes[fixture.type])
        let message = try type.init(serializedBytes: fixture.bytes)
        #expect(message.unknownFields.data.isEmpty)
        #expect(try JSONDecoder().decode(JSON.self, from: message.jsonUTF8Data()) == fixture.json)
    }

    @Test(arguments: Fixture.all)
    func `a message survives the conversion from binary to JSON and back`(fixture: Fixture) throws {
        let type = try #require(messageTypes[fixture.type])
        let message = try type.init(serializedBytes: fixture.bytes)
        #expect(try message.serializedBytes() == fixture.bytes)
        // JSON can't hold unknown fields, so this also proves that there are none, at any depth.
        let json: String = try message.jsonString()
        let again = try type.init(jsonString: json)
        #expect(again.isEqualTo(message: message))
        #expect(try again.serializedBytes() == fixture.bytes)
    }

    @Test(arguments: messageTypes.keys.sorted())
    func `the fixtures have every field of a type`(type: String) throws {
        // A oneof holds one field at a time, so several fixtures together cover its fields.
        let populated = Fixture.all.filter { $0.type == type }.flatMap { fieldNumbers(in: $0.bytes) }
        #expect(try Set(populated) == fieldNumbers(of: type))
    }

    /// Returns the numbers of the fields in a message's bytes, in order.
    private func fieldNumbers(in binary: [UInt8]) -> [Int] {
        var rest = binary[...]
        func varint() -> Int {
            var (value, shift) = (0, 0)
            while let byte = rest.popFirst() {
                value |= Int(byte & 0x7f) << shift
                shift += 7
                if byte < 0x80 { break }
            }
            return value
        }
        var numbers: [Int] = []
        while !rest.isEmpty {
            let tag = varint()
            numbers.append(tag >> 3)
            switch tag & 7 {
            case 0: _ = varint()
            case 1: rest = rest.dropFirst(8)
            case 2:
                let length = varint()
                rest = rest.dropFirst(length)
            default: rest = rest.dropFirst(4)
            }
        }
        return numbers
    }

    /// Returns the field numbers of a message in proto/.
    private func fieldNumbers(of type: String) throws -> Set<Int> {
        let folder = Fixture.root.appending(path: "proto/twofold/v1")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        let name = type.split(separator: ".").last!
        for file in files where file.pathExtension == "proto" {
            let text = try String(contentsOf: file, encoding: .utf8)
            if text.contains("\nmessage \(name) {}") { return [] }
            guard let start = text.range(of: "\nmessage \(name) {\n") else { continue }
            let body = text[start.upperBound...]
            let end = try #require(body.range(of: "\n}"))
            return Set(
                body[..<end.lowerBound].split(separator: "\n").compactMap { line in
                    guard let match = line.firstMatch(of: /^ +[^\/]*\w = (\d+);/) else { return nil }
                    return Int(match.1)
                })
        }
        Issue.record("no message \(type) in proto")
        return []
    }
}
