public import CPlatform

/// Asks the processor to load the cache line at an address, which the caller will soon use. Any address is allowed.
@inlinable @inline(__always)
public func prefetch(_ address: UnsafeRawPointer) { twofold_prefetch(address) }
