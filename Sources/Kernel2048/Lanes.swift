// The kernel's vector type. No other file depends on its width.
//
// Measured with Swift 6.3: comparing, adding and subtracting SIMD types of bytes compiles to vector code, and
// so do the bitwise operators of a SIMD mask. The bitwise operators of SIMD integers compile to loops over
// the lanes, so this file uses masks.

#if KERNEL_AVX2
private typealias Register = SIMD32<UInt8>
private typealias Mask = SIMDMask<SIMD32<Int8>>
#else
private typealias Register = SIMD16<UInt8>
private typealias Mask = SIMDMask<SIMD16<Int8>>
#endif

/// A vector register: one byte for each of 32 neighbouring lanes with AVX2, or of 16 lanes otherwise.
///
/// In a condition, each byte is 0x00 (false) or 0xff (true). `&` with a condition sets the bytes to 0 where it is
/// false; subtracting a condition adds 1 where it is true.
struct Lanes {
    private let bytes: Register

    /// The first lane of each register in a row of 64 lanes.
    static var starts: StrideTo<Int> { stride(from: 0, to: 64, by: Register.scalarCount) }

    @inline(__always) private init(_ bytes: Register) { self.bytes = bytes }
    @inline(__always) private init(_ mask: Mask) { bytes = unsafeBitCast(mask, to: Register.self) }
    @inline(__always) private var mask: Mask { unsafeBitCast(bytes, to: Mask.self) }

    /// Repeats one byte in every lane.
    @inline(__always) init(_ byte: UInt8) { bytes = Register(repeating: byte) }
    /// Loads a register from a row, which must be aligned like a block.
    @inline(__always) init(_ row: UnsafeRawPointer, _ lane: Int) {
        bytes = row.load(fromByteOffset: lane, as: Register.self)
    }
    /// Stores the register in a row, which may have any alignment.
    @inline(__always) func store(_ row: UnsafeMutableRawPointer, _ lane: Int) {
        row.storeBytes(of: bytes, toByteOffset: lane, as: Register.self)
    }

    @inline(__always) static func & (a: Lanes, b: Lanes) -> Lanes { Lanes(a.mask .& b.mask) }
    @inline(__always) static func | (a: Lanes, b: Lanes) -> Lanes { Lanes(a.mask .| b.mask) }
    @inline(__always) static func ^ (a: Lanes, b: Lanes) -> Lanes { Lanes(a.mask .^ b.mask) }
    @inline(__always) static prefix func ~ (lanes: Lanes) -> Lanes { Lanes(.!lanes.mask) }
    @inline(__always) static func |= (a: inout Lanes, b: Lanes) { a = a | b }
    @inline(__always) static func &= (a: inout Lanes, b: Lanes) { a = a & b }
    @inline(__always) static func &+ (a: Lanes, b: Lanes) -> Lanes { Lanes(a.bytes &+ b.bytes) }
    @inline(__always) static func &- (a: Lanes, b: Lanes) -> Lanes { Lanes(a.bytes &- b.bytes) }
    @inline(__always) static func .== (a: Lanes, b: Lanes) -> Lanes { Lanes(a.bytes .== b.bytes) }
    @inline(__always) static func .>= (a: Lanes, b: Lanes) -> Lanes { Lanes(a.bytes .>= b.bytes) }

    /// A condition that holds where the byte is 0.
    @inline(__always) var isZero: Lanes { self .== Lanes(0) }
    /// Selects `yes` in lanes where the condition holds, and `no` elsewhere.
    @inline(__always) static func select(_ condition: Lanes, _ yes: Lanes, _ no: Lanes) -> Lanes {
        (yes & condition) | (no & ~condition)
    }
    @inline(__always) static func max(_ a: Lanes, _ b: Lanes) -> Lanes { select(a .>= b, a, b) }
    @inline(__always) static func min(_ a: Lanes, _ b: Lanes) -> Lanes { select(a .>= b, b, a) }
    @inline(__always) static func exchange(_ a: inout Lanes, _ b: inout Lanes, where condition: Lanes) {
        #if KERNEL_AVX2
        (a, b) = (select(condition, b, a), select(condition, a, b))
        #else
        let difference = (a ^ b) & condition
        (a, b) = (a ^ difference, b ^ difference)
        #endif
    }
}

/// The 32-bit numbers of 16 neighbouring lanes.
typealias Numbers = SIMD16<UInt32>

extension Numbers {
    /// Loads the bytes of a row aligned like a block, and subtracts `less` from each.
    @inline(__always) init(_ row: UnsafeRawPointer, _ lane: Int, less: UInt8 = 0) {
        let bytes = row.load(fromByteOffset: lane, as: SIMD16<UInt8>.self) &- SIMD16<UInt8>(repeating: less)
        self.init()
        for lane in 0..<16 { self[lane] = UInt32(bytes[lane]) }
    }
}
