internal import Kernel2048
internal import Platform

#if canImport(Kernel2048AVX2)
internal import Kernel2048AVX2
#endif

/// The two compiled versions of the kernel: one runs on every processor, the other only on processors with AVX2.
enum Kernels {
    /// Returns the kernel that `engine` uses for boards of this size; nil if it uses the readable rules.
    static func kernel(_ engine: Engine, rows: Int, columns: Int) -> (any KernelOperations.Type)? {
        switch engine {
        case .reference: return nil
        case .baseline: break
        case .automatic, .avx2:
            #if canImport(Kernel2048AVX2)
            if Platform.hasAVX2 { return Kernel2048AVX2.kernel(rows: rows, columns: columns) }
            #endif
        }
        return Kernel2048.kernel(rows: rows, columns: columns)
    }

    /// The version of `findPlaces` for this processor.
    static let findPlaces: PlaceFinder = {
        #if canImport(Kernel2048AVX2)
        if Platform.hasAVX2 { return Kernel2048AVX2.findPlaces }
        #endif
        return Kernel2048.findPlaces
    }()

    typealias PlaceFinder =
        @Sendable (
            _ cells: UnsafeBufferPointer<Int>, _ columns: UnsafePointer<UInt8>, _ stride: Int, _ base: UInt32,
            _ table: UInt32, _ count: Int, _ places: UnsafeMutablePointer<UInt32>
        ) -> Void
}
