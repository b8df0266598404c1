import Foundation
import Testing
import TwofoldTestSupport

@testable import TwofoldSessions

@Suite struct SessionIDTests {
    @Test func `an id has 16 bytes`() {
        for length in 0...33 {
            #expect((SessionID(Data(repeating: 1, count: length)) != nil) == (length == 16))
        }
    }

    @Test func `two ids are equal if all their bytes are equal`() throws {
        let bytes = Data(0..<16)
        let id = try #require(SessionID(bytes))
        #expect(SessionID(Data(0..<16)) == id)
        #expect(SessionID((Data([9, 9]) + bytes).dropFirst(2)) == id, "a slice of other data")
        #expect(SessionID((Data([9, 9]) + bytes).dropFirst(2))?.hashValue == id.hashValue)
        for bit in 0..<128 {
            var other = bytes
            other[bit / 8] ^= 1 << (bit % 8)
            #expect(SessionID(other) != id, "bit \(bit)")
        }
    }

    @Test func `the description is eight hex digits of a hash, and reveals none of the bytes`() throws {
        var dice = Dice(seed: 1)
        var seen: Set<String> = []
        for _ in 0..<1000 {
            let bytes = Data(dice.bytes(16))
            let description = try #require(SessionID(bytes)).description
            #expect(description.wholeMatch(of: /[0-9a-f]{8}/) != nil)
            let hex = bytes.map { String(format: "%02x", $0) }.joined()
            let reversed = bytes.reversed().map { String(format: "%02x", $0) }.joined()
            #expect(!hex.contains(description) && !reversed.contains(description))
            #expect(SessionID(bytes)?.description == description, "an id always has the same description")
            seen.insert(description)
        }
        #expect(seen.count > 990, "different ids have different descriptions")
    }
}
