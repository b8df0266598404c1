/// The CRC-32 that zlib, PNG and Ethernet use (polynomial 0xedb88320, reflected), computed eight bytes at a time.
package enum Checksum {
    /// Eight tables with one entry for each of the 256 values of a byte. Table k holds the effect of each value on the
    /// checksum if k more bytes follow.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
        for byte in 0..<256 {
            var word = UInt32(byte)
            for _ in 0..<8 { word = word & 1 == 1 ? word >> 1 ^ 0xedb8_8320 : word >> 1 }
            tables[byte] = word
        }
        for index in 256..<8 * 256 {
            let word = tables[index - 256]
            tables[index] = word >> 8 ^ tables[Int(word & 0xff)]
        }
        return tables
    }()

    package static func of(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
        tables.withUnsafeBufferPointer { tables in
            var sum = UInt32.max
            var index = 0
            while index + 8 <= bytes.count {
                let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                let mixed = UInt64(littleEndian: word) ^ UInt64(sum)
                sum = 0
                for byte in 0..<8 {
                    sum ^= tables[(7 - byte) * 256 + Int(mixed >> UInt64(8 * byte) & 0xff)]
                }
                index += 8
            }
            while index < bytes.count {
                sum = sum >> 8 ^ tables[Int((sum ^ UInt32(bytes[index])) & 0xff)]
                index += 1
            }
            return ~sum
        }
    }
}
