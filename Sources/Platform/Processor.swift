public import CPlatform

/// Asks the processor to load the cache line at an address, which the caller will soon use. Any address is allowed.
@inlinable @inline(__always)
public func prefetch(_ address: UnsafeRawPointer) { twofold_prefetch(address) }

/// Whether the processor and the system support AVX2; false on other architectures.
package var hasAVX2: Bool { twofold_has_avx2() }
